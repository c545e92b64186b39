// What every subcommand's command line has in common: where a value comes from, how help reads,
// how mistakes are reported.
//
// A value is taken from the flag, else from PENSTOCK_<FLAG> in the environment (upper case, '_'
// for '-'), else from the TOML file of --config (keys are flag names, no sections), else it is the
// default. An unknown key in the file is an error.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/status.h"

namespace penstock {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure = 1;   // the command could not do its work
inline constexpr int kExitUsage = 2;     // the command line, a variable or the file is wrong
inline constexpr int kExitSignal = 128;  // plus the number of the signal that ended the command

class CommandLine {
 public:
  // `name`: "serve". `examples`: lines under "Examples:" in the help.
  CommandLine(const std::string& name, const std::string& summary, const std::string& examples);

  CLI::App& app() { return app_; }

  // Flags that guard something, without the dashes. For them an empty value, wherever it comes
  // from, is a mistake: a secret that failed to arrive must not leave the door open. (Of other
  // flags an empty variable is as none.) Before Parse.
  void RefuseEmpty(std::vector<std::string> flags) { not_empty_ = std::move(flags); }

  // Reads the arguments after the subcommand. Nothing: go on. Else the exit code: help was printed,
  // or the mistake was.
  std::optional<int> Parse(std::vector<std::string> args);

  // Prints "penstock NAME: message" on stderr; the exit code for that kind of failure.
  int Fail(const Status& status) const;
  int FailUsage(const std::string& message) const;

 private:
  // The flag of RefuseEmpty, or its variable, that is set but blank; "" = none.
  std::string SetButEmpty() const;

  std::string name_;
  CLI::App app_;
  std::vector<std::string> not_empty_;
};

}  // namespace penstock
