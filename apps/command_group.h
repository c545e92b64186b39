// CommandGroup: a command that only picks another: penstock itself, and penstock bench.
#pragma once

#include <string>
#include <vector>

#include "commands.h"

namespace penstock::cli {

struct CommandGroup {
  std::string program;   // "penstock bench"
  std::string summary;   // what it is, for the manual page
  std::string title;     // first line of the help
  std::string kind;      // of what it picks: "benchmark"
  std::string notes;     // after the list; whole lines
  std::string examples;  // lines, each indented by two; may be empty
  const std::vector<Command>& (*commands)();
};

// penstock itself.
const CommandGroup& ProgramGroup();
const CommandGroup& BenchGroup();

std::string HelpText(const CommandGroup& group);

// Runs the command that args[0] names with the rest, or prints the help; the exit code.
// "help NAME..." is "NAME... --help".
int RunGroup(const CommandGroup& group, const std::vector<std::string>& args);

// A whole program: prints its version, or calls RunGroup. Prints exceptions of it on stderr.
int RunProgram(const CommandGroup& group, const std::vector<std::string>& args);

}  // namespace penstock::cli
