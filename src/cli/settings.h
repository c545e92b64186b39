// The value of every flag of a command and where it comes from: the command line, else the
// variable, else the file. Settings reads the values; CLI11 holds the flags, checks and converts.
//
// Call ReadArguments, ReadVariables and ReadFile in that order: the first value stays. Then Apply.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/config_file.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace penstock::cli {

// PENSTOCK_MAX_BODY_BYTES of "max-body-bytes".
std::string EnvironmentName(const std::string& flag);

// --help, --help-all, --print-config and --config: no settings.
bool IsAction(const CLI::Option* option);
// With no value: --pin.
bool IsSwitch(const CLI::Option* option);
bool MayBeGivenAgain(const CLI::Option* option);
// The type in the help, without the checks CLI11 puts behind it.
std::string BareType(const CLI::Option* option);
// The values that its checks describe, as CLI11 writes a set ("{a,b}"); empty: any text.
std::vector<std::string> ChoicesOf(const CLI::Option* option);
// Names without dashes of all flags that a variable or the file can set.
std::vector<std::string> FlagNames(const CLI::App& app);

struct CommandFlags {
  std::string command;             // "bench http"
  std::vector<std::string> flags;  // without dashes
};

struct SettingRules {
  std::string command;                 // "serve"
  std::vector<std::string> not_empty;  // flags that guard something
  std::vector<std::string> per_model;  // flags that take NAME=VALUE
};

class Settings {
 public:
  // Both outlive this.
  Settings(CLI::App* app, const SettingRules* rules) : app_(app), rules_(rules) {}

  // The arguments after the command. Reads all of them, also after a mistake.
  Status ReadArguments(const std::vector<std::string>& args);
  Status ReadVariables();
  // `others`: of all commands, whose keys may stand in the file too.
  Status ReadFile(const std::string& path, const std::vector<CommandFlags>& others);
  // Checks and converts every value; the message begins with where it comes from.
  Status Apply();
  // After Apply: flags that are required, that need others or exclude them.
  Status CheckRequired() const;

  bool IsGiven(const std::string& flag) const;
  // The flags on the command line: the name without dashes, and the flag as typed ("-t").
  std::map<std::string, std::string> OnLine() const;
  // The first value of a flag, as given; "" = none.
  std::string ValueOf(const std::string& flag) const;

  // Unknown variables that begin with PENSTOCK_, each with the nearest known one, a line each.
  std::vector<std::string> UnknownVariables(const std::vector<CommandFlags>& others) const;

  // All settings as a table of TOML, each with where it comes from. Secrets stay out.
  std::string ToToml() const;

 private:
  struct Given {
    std::vector<std::string> values;
    std::string source;  // for messages: "--port", "PENSTOCK_PORT", "penstock.toml:3: port"
    std::string origin;  // for --print-config: "flag", "variable PENSTOCK_PORT", "penstock.toml:3"
  };
  struct FromFile {
    Given given;
    size_t depth = 0;  // of the table it stands in
  };
  struct ModelTable {
    std::string name;
    std::string names;      // with its aliases: "NAME,ALIAS"
    std::string reference;  // "" = not given
    int line = 0;
    std::map<std::string, ConfigEntry> settings;  // by flag
  };
  using FileValues = std::map<const CLI::Option*, FromFile>;

  CLI::Option* Find(const std::string& name) const;  // "port"
  bool LooksLikeFlag(const std::string& arg) const;
  Status TakeLong(const std::vector<std::string>& args, size_t* at);
  Status TakeShort(const std::vector<std::string>& args, size_t* at);
  Status TakePositional(const std::string& arg);
  Status TakeValue(const CLI::Option* option, const std::string& name,
                   const std::vector<std::string>& args, size_t* at);
  // `long_name`: without dashes, "" for a short one. `value`: behind '=', or none.
  Status TakeSwitch(const CLI::Option* option, const std::string& name,
                    const std::string& long_name, const std::string* value);
  Status Add(const CLI::Option* option, const std::string& source, std::string value);
  Status ReadVariable(const CLI::Option* option);

  // settings_file.cc
  Status CheckTables(const ConfigFile& file, const std::vector<CommandFlags>& others) const;
  Status TakeEntry(const ConfigFile& file, const ConfigEntry& entry,
                   const std::vector<CommandFlags>& others, FileValues* values) const;
  Status TakeModels(const ConfigFile& file, FileValues* values);
  Expected<std::vector<ModelTable>> ModelTables(const ConfigFile& file) const;
  void NameModels(const ConfigFile& file, std::vector<ModelTable>* tables, FileValues* values);

  Status ApplyOne(CLI::Option* option, const Given& given) const;
  std::string TomlLine(const CLI::Option* option) const;

  CLI::App* const app_;
  const SettingRules* const rules_;
  std::map<const CLI::Option*, Given> given_;
};

}  // namespace penstock::cli
