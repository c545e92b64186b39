// The penstock program: picks the subcommand.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "command_line.h"
#include "commands.h"
#include "common/printable.h"
#include "flag_values.h"

namespace {

void PrintHelp(FILE* out) {
  std::fprintf(out, "penstock " PENSTOCK_VERSION
                    " - inference server: embeds, reranks, classifies and generates text\n\n"
                    "Usage: penstock COMMAND [FLAGS]\n\nCommands:\n");
  for (const penstock::Command& command : penstock::Commands()) {
    std::fprintf(out, "  %-10s %s\n", command.name, command.summary);
  }
  std::fprintf(out,
               "\n  penstock COMMAND --help   flags, defaults and examples of a command\n"
               "  penstock --version        the version\n\n"
               "Example:\n"
               "  penstock serve --model sentence-transformers/all-MiniLM-L6-v2\n");
}

int Run(const std::vector<std::string>& args) {
  if (args.empty()) {
    PrintHelp(stderr);
    return penstock::kExitUsage;
  }
  if (args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
    PrintHelp(stdout);
    return penstock::kExitOk;
  }
  if (args[0] == "--version" || args[0] == "-V" || args[0] == "version") {
    std::puts("penstock " PENSTOCK_VERSION);
    return penstock::kExitOk;
  }
  for (const penstock::Command& command : penstock::Commands()) {
    if (args[0] == command.name) return command.run({args.begin() + 1, args.end()});
  }
  std::vector<std::string> known;
  for (const penstock::Command& command : penstock::Commands()) known.emplace_back(command.name);
  std::fprintf(stderr, "penstock: there is no command '%s'%s (see penstock --help)\n",
               penstock::Printable(args[0]).c_str(), penstock::DidYouMean(args[0], known).c_str());
  return penstock::kExitUsage;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return Run({argv + 1, argv + argc});
  } catch (const std::exception& error) {  // out of memory, out of threads
    std::fprintf(stderr, "penstock: %s\n", penstock::Printable(error.what()).c_str());
    return penstock::kExitFailure;
  }
}
