#include "cli/command_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/printable.h"
#include "cli/command_line.h"
#include "cli/flag_values.h"
#include "cli/help.h"

namespace penstock::cli {
namespace {

int RunNamed(const CommandGroup& group, const std::string& given,
             const std::vector<std::string>& args) {
  std::string name = given, hint;
  for (const OtherName& other : group.other_names) {
    if (given != other.name) continue;
    if (other.runs) name = other.command;
    hint = std::string("; did you mean ") + other.command + "?";
  }
  std::vector<std::string> known;
  for (const Command& command : group.commands()) {
    if (name == command.name) return command.run(args);
    known.emplace_back(command.name);
  }
  if (name.starts_with('-')) {
    std::fprintf(stderr, "%s: a %s comes before %s (see %s --help)\n", group.program.c_str(),
                 group.kind.c_str(), Printable(name).c_str(), group.program.c_str());
    return kExitUsage;
  }
  if (hint.empty()) hint = DidYouMean(name, known);
  std::fprintf(stderr, "%s: there is no %s '%s'%s (see %s --help)\n", group.program.c_str(),
               group.kind.c_str(), Printable(name).c_str(), hint.c_str(), group.program.c_str());
  return kExitUsage;
}

const CommandGroup* program_group = nullptr;

}  // namespace

const CommandGroup& KnownCommands() {
  static const std::vector<Command> kNone;
  static const CommandGroup kEmpty{
      .commands = []() -> const std::vector<Command>& { return kNone; }};
  return program_group == nullptr ? kEmpty : *program_group;
}

void SetKnownCommands(const CommandGroup* group) { program_group = group; }

std::string HelpText(const CommandGroup& group) {
  const std::string name = InCapitals(group.kind);
  std::string text = fmt::format("{}\n\nUsage: {} {} [FLAGS]\n\n{}s:\n", group.title, group.program,
                                 name, name[0] + group.kind.substr(1));
  size_t width = 0;
  for (const Command& command : group.commands()) {
    width = std::max(width, std::string(command.name).size());
  }
  for (const Command& command : group.commands()) {
    text += fmt::format("  {:<{}} {}\n", command.name, width, command.summary);
  }
  text += "\n" + group.notes;
  if (!group.examples.empty()) text += "\nExample:\n" + group.examples;
  return text;
}

int RunGroup(const CommandGroup& group, const std::vector<std::string>& args) {
  if (args.empty()) {
    std::fputs(HelpText(group).c_str(), stderr);
    return kExitUsage;
  }
  const std::vector<std::string> rest(args.begin() + 1, args.end());
  if (args[0] == "help" && !rest.empty()) {
    std::vector<std::string> of_command(rest.begin() + 1, rest.end());
    of_command.emplace_back("--help");
    return RunNamed(group, rest[0], of_command);
  }
  if (args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
    std::fputs(HelpText(group).c_str(), stdout);
    return kExitOk;
  }
  return RunNamed(group, args[0], rest);
}

}  // namespace penstock::cli
