// The penstock program: picks the subcommand.
#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "command_line.h"
#include "commands.h"
#include "common/printable.h"

namespace {

struct Command {
  const char* name;
  const char* summary;
  int (*run)(const std::vector<std::string>& args);
};

constexpr std::array kCommands = {
    Command{"serve", "Answer HTTP requests: OpenAI, TEI and rerank APIs", penstock::RunServe},
    Command{"embed", "Turn texts into vectors (JSONL or .npy)", penstock::RunEmbed},
    Command{"rerank", "Sort documents by how well they answer a query", penstock::RunRerank},
    Command{"classify", "Label texts or pairs of texts", penstock::RunClassify},
    Command{"tokenize", "Show the tokens of texts", penstock::RunTokenize},
    Command{"inspect", "Describe a model", penstock::RunInspect},
    Command{"doctor", "Check that a model computes what it should here", penstock::RunDoctor},
    Command{"bench", "Measure parts of Penstock, or a server under load", penstock::RunBench},
};

void PrintHelp(FILE* out) {
  std::fprintf(out, "penstock " PENSTOCK_VERSION
                    " - inference server: embeds, reranks and classifies texts\n\n"
                    "Usage: penstock COMMAND [FLAGS]\n\nCommands:\n");
  for (const Command& command : kCommands) {
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
  for (const Command& command : kCommands) {
    if (args[0] == command.name) return command.run({args.begin() + 1, args.end()});
  }
  std::fprintf(stderr, "penstock: there is no command '%s' (see penstock --help)\n",
               penstock::Printable(args[0]).c_str());
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
