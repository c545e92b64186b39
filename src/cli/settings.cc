#include "cli/settings.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <regex>
#include <string_view>

#include "base/split_list.h"
#include "cli/flag_values.h"

namespace penstock::cli {
namespace {

bool Contains(const std::vector<std::string>& list, const std::string& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

std::string Dashed(const std::string& name) { return "--" + name; }

Status NoBoolean(const std::string& source, const std::string& text) {
  return Status::InvalidArgument(
      fmt::format("{}: '{}' is not true or false (nor yes, no, on, off, 1, 0)", source, text));
}

Status Empty(const std::string& source) {
  return Status::InvalidArgument(source + " is set but empty; give it a value, or leave it out");
}

// The range of an option's CLI::Range check, as "a whole number from 0 to 256"; "" without one.
std::string RangeOf(const CLI::Option* option) {
  static const std::regex kRange(R"(:(\w+) in \[(.+) - (.+)\])");
  const std::string type = option->get_type_name();
  std::smatch found;
  if (!std::regex_search(type, found, kRange)) return "";
  return fmt::format("{}number from {} to {}", found[1] == "FLOAT" ? "a " : "a whole ",
                     found[2].str(), found[3].str());
}

// The values of the first set in a text of CLI11, which writes one as "{a->0,b->1}" or "{a,b}".
std::vector<std::string> ChoicesIn(const std::string& text) {
  const size_t from = text.find('{');
  const size_t to = text.find('}', from);
  if (from == std::string::npos || to == std::string::npos) return {};
  std::vector<std::string> names = SplitList(text.substr(from + 1, to - from - 1));
  for (std::string& name : names) name = name.substr(0, name.find("->"));
  return names;
}

// "a, b or c"
std::string Either(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " or " : ", ";
    text += names[i];
  }
  return text;
}

// Which of several values a message of CLI11 is about.
std::string ValueAtFault(const std::vector<std::string>& values, const std::string& message) {
  for (const std::string& value : values) {
    if (values.size() == 1 || message.find(value) != std::string::npos) return value;
  }
  return values.front();
}

// The error, from CLI11's message.
std::string Reason(const CLI::Option* option, const std::vector<std::string>& values,
                   const CLI::Error& error) {
  std::string text = error.what();
  const std::string value = ValueAtFault(values, text);
  const std::string type = BareType(option);
  const std::string suffixes = SuffixesOf(UnitOf(type));
  const std::string more = suffixes.empty() ? "" : fmt::format(" ({})", suffixes);
  if (const std::string range = RangeOf(option); !range.empty()) {
    return fmt::format("'{}' is not {}{}", value, range, more);
  }
  if (dynamic_cast<const CLI::ConversionError*>(&error) != nullptr) {
    return fmt::format("'{}' is not a valid {}{}", value, type, more);
  }
  const std::string prefix = option->get_name() + ": ";
  if (text.starts_with(prefix)) text.erase(0, prefix.size());
  const bool set =
      text.find(" not in {") != std::string::npos || text.find(" value in {") != std::string::npos;
  if (const std::string choices = set ? Either(ChoicesIn(text)) : ""; !choices.empty()) {
    return fmt::format("'{}' is not {}", value, choices);
  }
  return text;
}

// Variables that are not flags: those of the library, of tests and of tools.
constexpr std::array kOtherVariables = {
    "DEFAULT_MODEL", "DEMO_MODEL",  "IK",           "SMOLLM2",     "CPU_ISA",
    "BIN",           "MINILM",      "TESTDATA",     "SOAK_S",      "SOAK_LIVEZ_MS",
    "TOKENIZER",     "GOLDEN_DIR",  "ENCODE_BENCH", "ARM_SYSROOT", "CONFIG",
    "OPENVINO",      "CUDA_DRIVER", "LIBRARY",      "PROGRAM",
};

// Variables that Kubernetes sets in containers beside a service called penstock.
bool IsOfAService(const std::string& name) {
  return name.starts_with("PENSTOCK_SERVICE_") || name.starts_with("PENSTOCK_PORT_");
}

}  // namespace

std::string EnvironmentName(const std::string& flag) {
  std::string name = "PENSTOCK_";
  for (const char c : flag) {
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

bool IsAction(const CLI::Option* option) {
  const std::string name = option->get_single_name();
  return name == "help" || name == "help-all" || name == "print-config" || name == "config";
}

bool IsSwitch(const CLI::Option* option) { return option->get_items_expected_max() == 0; }

bool MayBeGivenAgain(const CLI::Option* option) { return option->get_items_expected_max() > 1; }

std::string BareType(const CLI::Option* option) {
  const std::string type = option->get_type_name();
  return type.substr(0, type.find(':'));
}

std::vector<std::string> ChoicesOf(const CLI::Option* option) {
  const std::string type = option->get_type_name();
  return ChoicesIn(type.substr(BareType(option).size()));
}

std::vector<std::string> FlagNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (IsAction(option)) continue;
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  }
  return names;
}

CLI::Option* Settings::Find(const std::string& name) const {
  return name.empty() ? nullptr : app_->get_option_no_throw(Dashed(name));
}

bool Settings::IsGiven(const std::string& flag) const { return given_.contains(Find(flag)); }

std::map<std::string, std::string> Settings::OnLine() const {
  std::map<std::string, std::string> flags;
  for (const auto& [option, given] : given_) {
    if (given.source.starts_with('-')) flags[option->get_single_name()] = given.source;
  }
  return flags;
}

std::string Settings::ValueOf(const std::string& flag) const {
  const auto found = given_.find(Find(flag));
  return found == given_.end() || found->second.values.empty() ? "" : found->second.values.front();
}

// ---- The command line

Status Settings::ReadArguments(const std::vector<std::string>& args) {
  Status first;
  bool flags = true;
  for (size_t at = 0; at < args.size(); ++at) {
    const std::string& arg = args[at];
    Status status;
    if (!flags || arg.size() < 2 || arg[0] != '-') {
      status = TakePositional(arg);
    } else if (arg == "--") {
      flags = false;
    } else {
      status = arg.starts_with("--") ? TakeLong(args, &at) : TakeShort(args, &at);
    }
    if (first.ok()) first = status;
  }
  return first;
}

bool Settings::LooksLikeFlag(const std::string& arg) const {
  if (arg == "--") return true;
  if (arg.starts_with("--")) return Find(arg.substr(2, arg.find('=') - 2)) != nullptr;
  return arg.size() == 2 && arg[0] == '-' && app_->get_option_no_throw(arg) != nullptr;
}

Status Settings::TakeLong(const std::vector<std::string>& args, size_t* at) {
  const std::string& arg = args[*at];
  const size_t equals = arg.find('=');
  const std::string name = arg.substr(2, equals == std::string::npos ? equals : equals - 2);
  const CLI::Option* const option = Find(name);
  if (option == nullptr) {
    std::vector<std::string> known = FlagNames(*app_);
    for (const char* action : {"help", "help-all", "print-config", "config"}) {
      known.emplace_back(action);
    }
    return Status::InvalidArgument(
        fmt::format("unknown flag --{}{}", name, DidYouMean(name, known, "--")));
  }
  if (IsSwitch(option)) {
    const std::string value = equals == std::string::npos ? "" : arg.substr(equals + 1);
    return TakeSwitch(option, Dashed(name), name, equals == std::string::npos ? nullptr : &value);
  }
  if (equals != std::string::npos) return Add(option, Dashed(name), arg.substr(equals + 1));
  return TakeValue(option, Dashed(name), args, at);
}

Status Settings::TakeShort(const std::vector<std::string>& args, size_t* at) {
  const std::string arg = args[*at];
  for (size_t i = 1; i < arg.size(); ++i) {
    const std::string name = std::string("-") + arg[i];
    const CLI::Option* const option = app_->get_option_no_throw(name);
    if (option == nullptr) {
      return Status::InvalidArgument(fmt::format("unknown flag {}", i == 1 ? arg : name));
    }
    if (IsSwitch(option)) {
      PENSTOCK_RETURN_IF_ERROR(TakeSwitch(option, name, "", nullptr));
      continue;
    }
    if (i + 1 == arg.size()) return TakeValue(option, name, args, at);
    return Add(option, name, arg.substr(arg[i + 1] == '=' ? i + 2 : i + 1));
  }
  return Status::Ok();
}

Status Settings::TakeValue(const CLI::Option* option, const std::string& name,
                           const std::vector<std::string>& args, size_t* at) {
  // --server-flag --no-pin: there a flag is the value.
  const bool takes_flags = BareType(option) == "FLAG";
  if (*at + 1 == args.size()) return Status::InvalidArgument(name + " needs a value");
  const std::string& next = args[*at + 1];
  if (!takes_flags && LooksLikeFlag(next)) {
    return Status::InvalidArgument(
        fmt::format("{} needs a value; {} after it is a flag", name, next));
  }
  ++*at;
  return Add(option, name, next);
}

Status Settings::TakeSwitch(const CLI::Option* option, const std::string& name,
                            const std::string& long_name, const std::string* value) {
  bool on = option->get_flag_value(long_name, "") != "false";
  if (value != nullptr) {
    const auto given = ParseBoolean(*value);
    if (!given) return NoBoolean(name, *value);
    on = on == *given;
  }
  given_[option] = {{on ? "true" : "false"}, name, "flag"};
  return Status::Ok();
}

Status Settings::Add(const CLI::Option* option, const std::string& source, std::string value) {
  const auto [at, first] = given_.try_emplace(option, Given{{}, source, "flag"});
  if (!first && !MayBeGivenAgain(option)) {
    return Status::InvalidArgument(fmt::format("{} is given twice", source));
  }
  at->second.values.push_back(std::move(value));
  return Status::Ok();
}

Status Settings::TakePositional(const std::string& arg) {
  for (const CLI::Option* option : app_->get_options()) {
    if (!option->get_positional()) continue;
    if (given_.contains(option) && !MayBeGivenAgain(option)) continue;
    return Add(option, option->get_name(true), arg);
  }
  return Status::InvalidArgument(fmt::format("'{}' was not expected", arg));
}

// ---- Variables

Status Settings::ReadVariables() {
  for (const CLI::Option* option : app_->get_options()) {
    if (option->get_lnames().empty() || IsAction(option)) continue;
    PENSTOCK_RETURN_IF_ERROR(ReadVariable(option));
  }
  return Status::Ok();
}

Status Settings::ReadVariable(const CLI::Option* option) {
  std::optional<Given> read;
  for (const std::string& name : option->get_lnames()) {
    std::string variable = EnvironmentName(name);
    const char* value = std::getenv(variable.c_str());
    // Two have names that other servers gave them, too.
    if (value == nullptr && (name == "model-unload-timeout" || name == "cleanup-check-interval")) {
      variable.erase(0, variable.find('_') + 1);
      value = std::getenv(variable.c_str());
    }
    if (value == nullptr) continue;
    if (Contains(rules_->not_empty, option->get_single_name()) && IsBlank(value)) {
      return Empty(variable);
    }
    if (*value == '\0') continue;
    Given given{{value}, variable, "variable " + variable};
    if (IsSwitch(option)) {
      const auto on = ParseBoolean(value);
      if (!on) return NoBoolean(variable, value);
      given.values = {(option->get_flag_value(name, "") != "false") == *on ? "true" : "false"};
    } else if (MayBeGivenAgain(option) && !Contains(rules_->per_model, name)) {
      given.values = SplitList(value);
    }
    if (read && read->values != given.values) {
      return Status::InvalidArgument(
          fmt::format("{} and {} do not go together", read->source, variable));
    }
    read = std::move(given);
  }
  if (read) given_.try_emplace(option, std::move(*read));
  return Status::Ok();
}

std::vector<std::string> Settings::UnknownVariables(const std::vector<CommandFlags>& others) const {
  constexpr std::string_view kPrefix = "PENSTOCK_";
  std::vector<std::string> known;  // without the prefix, which would make all names look alike
  const auto add = [&](const std::string& flag) {
    known.push_back(EnvironmentName(flag).substr(kPrefix.size()));
  };
  for (const std::string& flag : FlagNames(*app_)) add(flag);
  for (const char* name : kOtherVariables) known.emplace_back(name);
  for (const CommandFlags& other : others)
    std::for_each(other.flags.begin(), other.flags.end(), add);
  std::vector<std::string> unknown;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string variable(text.substr(0, text.find('=')));
    if (!variable.starts_with(kPrefix) || IsOfAService(variable)) continue;
    const std::string name = variable.substr(kPrefix.size());
    if (Contains(known, name)) continue;
    unknown.push_back(fmt::format("warning: the variable {} is of no flag and is ignored{}",
                                  variable, DidYouMean(name, known, std::string(kPrefix))));
  }
  return unknown;
}

// ---- Checks and conversions of values

Status Settings::Apply() {
  for (CLI::Option* option : app_->get_options()) {
    const auto given = given_.find(option);
    if (given != given_.end()) PENSTOCK_RETURN_IF_ERROR(ApplyOne(option, given->second));
  }
  return Status::Ok();
}

Status Settings::ApplyOne(CLI::Option* option, const Given& given) const {
  const bool guards = Contains(rules_->not_empty, option->get_single_name());
  const Unit unit = UnitOf(BareType(option));
  const bool list = MayBeGivenAgain(option);
  // A flag that may be given again takes one value each time; "[a,b]" is not a list.
  if (list) option->expected(CLI::detail::expected_max_vector_size)->allow_extra_args(false);
  for (const std::string& value : given.values) {
    const bool from_line = given.source.starts_with('-');
    if (guards ? IsBlank(value) : value.empty() && list && !from_line) {
      return Empty(given.source);
    }
    auto number = InUnit(value, unit);
    if (!number.ok()) {
      return Status::InvalidArgument(
          fmt::format("{}: {}", given.source, number.status().message()));
    }
    option->add_result(*std::move(number));
  }
  try {
    option->run_callback();
  } catch (const CLI::Error& error) {
    return Status::InvalidArgument(
        fmt::format("{}: {}", given.source, Reason(option, given.values, error)));
  }
  return Status::Ok();
}

Status Settings::CheckRequired() const {
  for (const CLI::Option* option : app_->get_options()) {
    const std::string name = option->get_name();
    if (option->get_required() && option->count() == 0) {
      return Status::InvalidArgument(name + " is required");
    }
    if (option->count() == 0) continue;
    for (const CLI::Option* needed : option->get_needs()) {
      if (needed->count() > 0) continue;
      return Status::InvalidArgument(fmt::format("{} needs {}", name, needed->get_name()));
    }
    for (const CLI::Option* other : option->get_excludes()) {
      if (other->count() == 0) continue;
      return Status::InvalidArgument(
          fmt::format("{} and {} do not go together", name, other->get_name()));
    }
  }
  return Status::Ok();
}

}  // namespace penstock::cli
