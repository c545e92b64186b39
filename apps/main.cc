// The penstock program: picks the subcommand.
#include "command_group.h"

int main(int argc, char** argv) {
  return penstock::cli::RunProgram(penstock::cli::ProgramGroup(), {argv + 1, argv + argc});
}
