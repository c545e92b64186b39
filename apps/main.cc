// The penstock program: picks the subcommand.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "command_group.h"
#include "command_line.h"
#include "common/printable.h"

namespace {

int Run(const std::vector<std::string>& args) {
  if (!args.empty() && (args[0] == "--version" || args[0] == "-V" || args[0] == "version")) {
    std::puts("penstock " PENSTOCK_VERSION);
    return penstock::cli::kExitOk;
  }
  return penstock::cli::RunGroup(penstock::cli::ProgramGroup(), args);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run({argv + 1, argv + argc});
  } catch (const std::exception& error) {  // out of memory, out of threads
    std::fprintf(stderr, "penstock: %s\n", penstock::Printable(error.what()).c_str());
    return penstock::cli::kExitFailure;
  }
}
