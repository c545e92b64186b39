// penstock bench: picks the benchmark. Each reads its flags in a bench_NAME.cc of its own.
#include <cstdio>
#include <vector>

#include "command_line.h"
#include "commands.h"
#include "common/printable.h"
#include "flag_values.h"

namespace penstock {
namespace {

void PrintHelp(FILE* out) {
  std::fprintf(out,
               "Measure Penstock.\n\nUsage: penstock bench BENCHMARK [FLAGS]\n\nBenchmarks:\n");
  for (const Command& benchmark : Benchmarks()) {
    std::fprintf(out, "  %-11s %s\n", benchmark.name, benchmark.summary);
  }
  std::fprintf(out,
               "\n  penstock bench BENCHMARK --help   flags, defaults and examples\n"
               "Each takes --json FILE: the records, one JSON object {\"name\", \"value\", "
               "\"unit\"} a line.\n");
}

}  // namespace

const std::vector<Command>& Benchmarks() {
  static const std::vector<Command> kBenchmarks = {
      {"generate", "Prompts and tokens a second of a decoder", RunBenchGenerate},
      {"chat", "Many texts at once beside one; second turns; running texts beside long prompts",
       RunBenchChat},
      {"chat-http", "A stream of text over HTTP beside the model alone, and beside bulk embeddings",
       RunBenchChatHttp},
      {"kernels", "Share of the processor's peak the kernels use, beside oneDNN", RunBenchKernels},
      {"http", "A server under load: rates and latencies", RunBenchHttp},
      {"saturation",
       "A whole server beside its kernels alone; interactive requests under bulk load",
       RunBenchSaturation},
      {"reindex", "Embedding a file, locally and by --url, beside the kernels alone",
       RunBenchReindex},
      {"stages", "What timing the stages of requests costs", RunBenchStages},
      {"batcher", "Forming batches of rows, beside queues with a batcher thread", RunBenchBatcher},
      {"tensors", "The way of tensor requests to a model and back", RunBenchTensors},
      {"lifecycle", "Models that come and go: start, reload, and cycles under traffic",
       RunBenchLifecycle},
      {"soak", "A server under several times its capacity: limits that must still hold",
       RunBenchSoak},
      {"policy", "Batching policies on simulated arrivals: latencies and throughput",
       RunBenchPolicy},
      {"ui", "What the web page costs a server, and its bytes", RunBenchUi},
  };
  return kBenchmarks;
}

int RunBench(const std::vector<std::string>& args) {
  if (args.empty()) {
    PrintHelp(stderr);
    return kExitUsage;
  }
  if (args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
    PrintHelp(stdout);
    return kExitOk;
  }
  for (const Command& benchmark : Benchmarks()) {
    if (args[0] == benchmark.name) return benchmark.run({args.begin() + 1, args.end()});
  }
  std::vector<std::string> known;
  for (const Command& benchmark : Benchmarks()) known.emplace_back(benchmark.name);
  std::fprintf(stderr, "penstock bench: there is no benchmark '%s'%s (see penstock bench --help)\n",
               Printable(args[0]).c_str(), DidYouMean(args[0], known).c_str());
  return kExitUsage;
}

}  // namespace penstock
