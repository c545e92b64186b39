#include "program_entry.h"

#include <cstdio>
#include <exception>

#include "base/printable.h"
#include "cli/command_line.h"
#include "commands.h"
#include "files/mapped_file.h"
#include "log/log.h"
#include "version.h"

namespace penstock::cli {
namespace {

ProgramParts program;

}  // namespace

const ProgramParts& Program() { return program; }

int RunProgram(const CommandGroup& group, const std::vector<std::string>& args) try {
  SetKnownCommands(&ProgramGroup());
  files::MappedFile::MendTruncated();
  if (!args.empty() && (args[0] == "--version" || args[0] == "-V" || args[0] == "version")) {
    return RunVersion(group.program, {args.begin() + 1, args.end()});
  }
  return RunGroup(group, args);
} catch (const std::exception& error) {  // out of memory, out of threads
  std::fprintf(stderr, "%s: %s\n", group.program.c_str(), Printable(error.what()).c_str());
  return kExitFailure;
}

}  // namespace penstock::cli

int penstock_program(int argc, char** argv, const penstock::cli::ProgramParts* parts) {
  penstock::cli::program = *parts;
  const int code =
      penstock::cli::RunProgram(penstock::cli::ProgramGroup(), {argv + 1, argv + argc});
  penstock::FlushLog();
  return code;
}
