// CommandLine: shared by all subcommands: sources of values, help, reports of mistakes.
//
// A value is taken from the flag, else from PENSTOCK_<FLAG> in the environment (upper case, '_'
// for '-'), else from the TOML file of --config, else it is the default.
//
// In the file keys are flag names. Before the first table they are for every command that has such
// a flag; in [serve] or [bench.http] for that command, and go before the others. [models.NAME] is
// a model. An unknown key is an error, unless it stands before the tables and another command has
// it.
//
// Lists in variables: items have commas between them; where there is a line break, each line is an
// item, which may then have commas. Flags that take NAME=VALUE split commas themselves.
// Types BYTES, US, MS and S take suffixes (32MB, 500ms), wherever they come from.
#pragma once

#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/command_group.h"
#include "cli/flags.h"
#include "cli/settings.h"

namespace penstock::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;   // the command could not do its work
inline constexpr int kExitUsage = 2;     // the command line, a variable or the file is wrong
inline constexpr int kExitSkipped = 3;   // the work is done, but for rows that were skipped
inline constexpr int kExitSignal = 128;  // plus the number of the signal that ended the command

class CommandLine {
 public:
  // `name`: "serve"; "lab soak" is `penstock-lab soak`. `examples`: lines under "Examples:" in the help.
  CommandLine(const std::string& name, const std::string& summary, const std::string& examples);

  FlagSet& flags() { return flags_; }
  const FlagSet& flags() const { return flags_; }
  const std::string& name() const { return rules_.command; }
  const std::string& examples() const { return examples_; }

  // Flags that guard something, without the dashes. For them an empty value, wherever it comes
  // from, is a mistake: a secret that failed to arrive must not leave the door open. (For other
  // flags an empty variable counts as unset.) Before Parse.
  void RefuseEmpty(std::vector<std::string> flags) { rules_.not_empty = std::move(flags); }

  // Flags that take NAME=VALUE (per_model.h), without the dashes: keys of [models.NAME].
  void PerModelFlags(std::vector<std::string> flags) { rules_.per_model = std::move(flags); }

  // Names of groups, and flags without the dashes, that --help leaves to --help-all.
  void HideInHelp(const std::vector<std::string>& names);

  // Reads the arguments after the subcommand. nullopt: go on. Else the exit code: help or settings
  // were printed, or the mistake was.
  std::optional<int> Parse(const std::vector<std::string>& args);
  // The values of these arguments alone, without variables, file and output: for the library.
  Status ParseArguments(const std::vector<std::string>& args);

  // After Parse: flags that the command line itself set, without dashes, each as typed ("-t").
  const std::map<std::string, std::string>& on_line() const { return on_line_; }

  // Prints "penstock NAME: message" on stderr; the exit code for that kind of failure.
  int Fail(const Status& status) const;
  int FailUsage(const std::string& message) const;

 private:
  Status ReadSettings(const Status& arguments, Settings* settings) const;

  std::string program_;  // "penstock serve"
  std::string examples_;
  FlagSet flags_;
  SettingRules rules_;
  std::vector<std::string> hidden_;
  std::map<std::string, std::string> on_line_;
  // Set by --help, --help-all, --print-config and --config.
  bool help_ = false;
  bool help_all_ = false;
  bool print_config_ = false;
  std::string config_;
};

// Calls `visit` for every command of KnownCommands that has flags, with the command line that knows
// them; no command runs. One thread.
void VisitCommandLines(const std::function<void(const Command&, const CommandLine&)>& visit);

}  // namespace penstock::cli
