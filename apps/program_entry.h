// Where the program enters libpenstock.so, and what it brings along.
#pragma once

#include <memory>

#include "chat_lines.h"

namespace penstock::cli {

// What only the program has.
struct ProgramParts {
  std::unique_ptr<ChatLines> (*terminal_lines)(ChatSignals* signals) = nullptr;
};
// What this process has of it; all null before penstock_program.
const ProgramParts& Program();

}  // namespace penstock::cli

// The whole program, with the arguments of main(); returns its exit code. Not for other callers: it
// handles signals, prints, and has no promise of version.
extern "C" [[gnu::visibility("default")]] int penstock_program(
    int argc, char** argv, const penstock::cli::ProgramParts* parts);
