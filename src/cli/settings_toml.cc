// --print-config: the settings in effect, as a file that --config takes.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <string>

#include "base/printable.h"
#include "base/split_list.h"
#include "cli/settings.h"

namespace penstock::cli {
namespace {

// "[[8]]" and "[8]" as "8".
std::string Bare(std::string text) {
  while (text.size() >= 2 && text.front() == '[' && text.back() == ']') {
    text = text.substr(1, text.size() - 2);
  }
  return text == "\"\"" || text == "{}" ? "" : text;
}

// A number where it reads back as the same text, else a string.
std::string TomlValue(const std::string& text) {
  int64_t whole = 0;
  double number = 0;
  if (CLI::detail::lexical_cast(text, whole) && fmt::format("{}", whole) == text) return text;
  if (text.find('.') != std::string::npos && CLI::detail::lexical_cast(text, number) &&
      fmt::format("{}", number) == text) {
    return text;
  }
  return TomlString(text);
}

// Keys, secrets, and addresses that hold a password.
bool IsSecret(const CLI::Option* option, const std::vector<std::string>& values) {
  const std::string type = BareType(option);
  return type == "KEY" || type == "SECRET" ||
         (type == "URL" && std::any_of(values.begin(), values.end(), [](const std::string& value) {
            return value.find('@') != std::string::npos;
          }));
}

std::string List(const std::vector<std::string>& values) {
  std::string text = "[";
  for (const std::string& value : values) text += (text.size() > 1 ? ", " : "") + TomlValue(value);
  return text + "]";
}

}  // namespace

std::string Settings::TomlLine(const CLI::Option* option) const {
  const std::string name = option->get_lnames().front();
  const auto found = given_.find(option);
  if (found != given_.end()) {
    const auto& [values, source, origin] = found->second;
    const std::string from = Printable(origin);
    if (IsSecret(option, values)) return fmt::format("# {} is set, and secret  # {}", name, from);
    if (IsSwitch(option)) return fmt::format("{} = {}  # {}", name, values.front(), from);
    const bool list = MayBeGivenAgain(option) && values.size() != 1;
    return fmt::format("{} = {}  # {}", name, list ? List(values) : TomlValue(values.front()),
                       from);
  }
  if (IsSwitch(option)) {
    // CLI11 keeps no default of a switch; its description says "[on]".
    const bool on = option->get_description().ends_with("[on]");
    if (!on && option->get_lnames().size() > 1) return fmt::format("# {} is not set", name);
    return fmt::format("{} = {}  # default", name, on);
  }
  const std::string text = Bare(option->get_default_str());
  if (text.empty()) return fmt::format("# {} is not set", name);
  if (!MayBeGivenAgain(option) || text.find(',') == std::string::npos) {
    return fmt::format("{} = {}  # default", name, TomlValue(text));
  }
  return fmt::format("{} = {}  # default", name, List(SplitList(text)));
}

std::string Settings::ToToml() const {
  std::string table = rules_->command;
  std::replace(table.begin(), table.end(), ' ', '.');
  std::string text = fmt::format("# penstock {}\n[{}]\n", rules_->command, table);
  for (const CLI::Option* option : app_->get_options()) {
    if (!option->get_lnames().empty() && !IsAction(option)) text += TomlLine(option) + "\n";
  }
  return text;
}

}  // namespace penstock::cli
