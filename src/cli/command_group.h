// CommandGroup: a command that only picks another: penstock itself, and penstock bench.
#pragma once

#include <string>
#include <vector>

namespace penstock::cli {

struct CommandGroup;

// A subcommand; those of a group within a group pick no further ones. `run` gets the arguments after
// its name and returns the exit code. It parses its CommandLine before it does anything else: others
// run it as far as that, to learn its flags.
struct Command {
  const char* name;
  const char* summary;
  int (*run)(const std::vector<std::string>& args);
  const CommandGroup& (*group)() = nullptr;  // of a command that only picks another
};

// A name that other programs have for a command.
struct OtherName {
  const char* name;
  const char* command;
  bool runs;  // false: the error only names the command
};

struct CommandGroup {
  std::string program;   // "penstock bench"
  std::string summary;   // what it is, for the manual page
  std::string title;     // first line of the help
  std::string kind;      // of what it picks: "benchmark"
  std::string notes;     // after the list; whole lines
  std::string examples;  // lines, each indented by two; may be empty
  const std::vector<Command>& (*commands)();
  std::vector<OtherName> other_names = {};
};

// The commands, with those of the groups among them, whose flags variables and files may set, and
// which completion and manual pages are about. None before SetKnownCommands, which a program calls
// once, before it runs a command.
const CommandGroup& KnownCommands();
void SetKnownCommands(const CommandGroup* group);

std::string HelpText(const CommandGroup& group);

// Runs the command that args[0] names with the rest, or prints the help; the exit code.
// "help NAME..." is "NAME... --help".
int RunGroup(const CommandGroup& group, const std::vector<std::string>& args);

}  // namespace penstock::cli
