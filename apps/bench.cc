// penstock bench: picks the benchmark. Each reads its flags in a bench_NAME.cc of its own.
#include <algorithm>
#include <cstdio>

#include "cli/command_line.h"
#include "commands.h"

namespace penstock::cli {

namespace {

const std::vector<Command>& Benchmarks() {
  static const std::vector<Command> kBenchmarks = {
      {"http", "A server under load: rates and latencies", RunBenchHttp},
      {"generate", "Prompts and tokens a second of a decoder", RunBenchGenerate},
      {"chat", "Many texts at once beside one; second turns; running texts beside long prompts",
       RunBenchChat},
      {"reindex", "Embedding a file, locally and by --url, beside the kernels alone",
       RunBenchReindex},
      {"kernels", "Each kernel of a GPU beside its floor", RunBenchKernels},
  };
  return kBenchmarks;
}

}  // namespace

const CommandGroup& BenchGroup() {
  static const CommandGroup kGroup = {
      "penstock bench",
      "measure models on this machine, or a server under load",
      "Measure Penstock.",
      "benchmark",
      "  penstock bench BENCHMARK --help   flags, defaults and examples\n"
      "Each takes --json FILE: the records, one JSON object {\"name\", \"value\", \"unit\"} a "
      "line.\nThose that measure parts of Penstock are in penstock-lab, which `make lab` builds "
      "from "
      "its sources.\n",
      "",
      Benchmarks};
  return kGroup;
}

int RunBench(const std::vector<std::string>& args) {
  // Benchmarks of earlier versions.
  static constexpr const char* kExperiments[] = {"saturation", "chat-http", "soak",
                                                 "lifecycle",  "batcher",   "policy",
                                                 "tensors",    "stages",    "ui"};
  if (!args.empty() && std::ranges::find(kExperiments, args[0]) != std::end(kExperiments)) {
    std::fprintf(stderr,
                 "penstock bench: '%s' has moved to penstock-lab, which `make lab` builds from "
                 "Penstock's sources: penstock-lab %s\n",
                 args[0].c_str(), args[0].c_str());
    return kExitUsage;
  }
  return RunGroup(BenchGroup(), args);
}

}  // namespace penstock::cli
