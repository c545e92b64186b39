#include "cli/help.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <sstream>

#include "cli/settings.h"

namespace penstock::cli {
namespace {

std::string Wrapped(const std::string& text, size_t indent) {
  constexpr size_t kWidth = 90;
  std::istringstream words(text);
  std::string out(indent, ' ');
  size_t column = indent;
  for (std::string word; words >> word;) {
    if (column > indent && column + 1 + word.size() > kWidth) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out;
}

// " [8]"; CLI11 writes a list as "[8]" or "[[8]]".
std::string Default(const CLI::Option* option) {
  std::string text = option->get_default_str();
  while (text.size() >= 2 && text.front() == '[' && text.back() == ']') {
    text = text.substr(1, text.size() - 2);
  }
  return text.empty() || text == "{}" || text == "\"\"" ? "" : " [" + text + "]";
}

// The title on a line, below it the text.
std::string OptionText(const CLI::Option* option) {
  const std::string title = option->get_positional() ? option->get_name(true) : FlagTitle(option);
  return "  " + title + "\n" + Wrapped(FlagText(option), 10) + "\n";
}

}  // namespace

std::string InCapitals(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::string FlagTitle(const CLI::Option* option) {
  std::string names;
  for (const std::string& name : option->get_snames()) {
    names += (names.empty() ? "-" : ", -") + name;
  }
  for (const std::string& name : option->get_lnames()) {
    names += (names.empty() ? "--" : ", --") + name;
  }
  return IsSwitch(option) ? names : names + " " + BareType(option);
}

std::string FlagText(const CLI::Option* option) {
  std::string text = option->get_description();
  if (option->get_required()) {
    text += " Required.";
  } else if (!IsSwitch(option)) {
    text += Default(option);
  }
  return text;
}

std::string PositionalTitle(const CLI::Option* option) {
  const std::string name = option->get_name(true) + (MayBeGivenAgain(option) ? "..." : "");
  return option->get_required() ? name : "[" + name + "]";
}

std::string HelpText(const CLI::App& app, const std::string& examples,
                     const std::vector<std::string>& hidden, bool all) {
  const auto is_hidden = [&](const std::string& name) {
    return !all && std::find(hidden.begin(), hidden.end(), name) != hidden.end();
  };
  std::string files;
  std::string positionals;
  std::string groups;
  for (const std::string& group : app.get_groups()) {
    std::string text;
    for (const CLI::Option* option : app.get_options()) {
      if (option->get_positional() || option->get_group() != group || is_hidden(group) ||
          is_hidden(option->get_single_name())) {
        continue;
      }
      text += OptionText(option);
    }
    if (!text.empty()) groups += "\n" + group + "\n" + text;
  }
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    files += " " + PositionalTitle(option);
    positionals += OptionText(option);
  }
  std::string text =
      Wrapped(app.get_description(), 0) + "\n\nUsage: " + app.get_name() + " [FLAGS]" + files;
  if (!positionals.empty()) text += "\n\nArguments\n" + positionals;
  if (positionals.empty()) text += '\n';
  text += groups + '\n';
  if (!hidden.empty() && !all) text += "--help-all shows flags that matter less here.\n\n";
  return text + app.get_footer() + "\nExamples:\n" + examples;
}

}  // namespace penstock::cli
