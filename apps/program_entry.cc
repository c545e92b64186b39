#include "program_entry.h"

#include "command_group.h"
#include "log/log.h"

namespace penstock::cli {
namespace {

ProgramParts program;

}  // namespace

const ProgramParts& Program() { return program; }

}  // namespace penstock::cli

int penstock_program(int argc, char** argv, const penstock::cli::ProgramParts* parts) {
  penstock::cli::program = *parts;
  const int code =
      penstock::cli::RunProgram(penstock::cli::ProgramGroup(), {argv + 1, argv + argc});
  penstock::FlushLog();
  return code;
}
