// penstock bench: picks the benchmark. Each reads its flags in a bench_NAME.cc of its own.
#include "command_group.h"
#include "commands.h"

namespace penstock::cli {

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

int RunBench(const std::vector<std::string>& args) { return RunGroup(BenchGroup(), args); }

}  // namespace penstock::cli
