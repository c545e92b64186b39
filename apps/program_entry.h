// Where the program enters libpenstock.so, and what it brings along.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "chat_lines.h"
#include "cli/command_group.h"

namespace penstock::cli {

// What only the program has.
struct ProgramParts {
  std::unique_ptr<ChatLines> (*terminal_lines)(ChatSignals* signals) = nullptr;
};
// What this process has of it; all null before penstock_program.
const ProgramParts& Program();

// A whole program, penstock or penstock-lab: prints its version, or calls RunGroup. Prints
// exceptions of it on stderr. Variables and files may set the flags of penstock in both.
int RunProgram(const CommandGroup& group, const std::vector<std::string>& args);

}  // namespace penstock::cli

// The whole program, with the arguments of main(); returns its exit code. Not for other callers: it
// handles signals, prints, and has no promise of version.
extern "C" [[gnu::visibility("default")]] int penstock_program(
    int argc, char** argv, const penstock::cli::ProgramParts* parts);
