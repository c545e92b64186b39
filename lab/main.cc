// penstock-lab: experiments with Penstock itself. Not part of a package.
#include "apps/program_entry.h"
#include "lab/commands.h"

namespace penstock::lab {
namespace {

const std::vector<cli::Command>& Experiments() {
  static const std::vector<cli::Command> kExperiments = {
      {"kernels", "Share of the processor's peak the kernels use, beside oneDNN", KernelsCommand},
      {"threads", "Steps of a decoder by more threads than processors, and by more cores",
       ThreadsCommand},
      {"saturation",
       "A whole server beside its kernels alone; interactive requests under bulk load",
       SaturationCommand},
      {"chat-http", "A stream of text over HTTP beside the model alone, and beside bulk embeddings",
       ChatHttpCommand},
      {"soak", "A server under several times its capacity: limits that must still hold",
       SoakCommand},
      {"lifecycle", "Models that come and go: start, reload, and cycles under traffic",
       LifecycleCommand},
      {"batcher", "Forming batches of rows, beside queues with a batcher thread", BatcherCommand},
      {"policy", "Batching policies on simulated arrivals: latencies and throughput",
       PolicyCommand},
      {"tensors", "The way of tensor requests to a model and back", TensorsCommand},
      {"tokenizers", "Text a second that a tokenizer turns into ids", TokenizersCommand},
      {"schemas", "Texts by chance that JSON schemas allow, and what masks cost", SchemasCommand},
      {"stages", "What timing the stages of requests costs", StagesCommand},
      {"ui", "What the web page costs a server, and its bytes", UiCommand},
  };
  return kExperiments;
}

const cli::CommandGroup& LabGroup() {
  static const cli::CommandGroup kGroup = {
      "penstock-lab",
      "experiments with Penstock",
      "penstock-lab " PENSTOCK_VERSION " - experiments with Penstock",
      "experiment",
      "  penstock-lab EXPERIMENT --help   flags, defaults and examples\n"
      "Each takes --json FILE: the records, one JSON object {\"name\", \"value\", \"unit\"} a "
      "line.\nThose that start a server start the penstock beside this program.\n",
      "  penstock-lab kernels --shape bge-base\n",
      Experiments};
  return kGroup;
}

}  // namespace
}  // namespace penstock::lab

int main(int argc, char** argv) {
  return penstock::cli::RunProgram(penstock::lab::LabGroup(), {argv + 1, argv + argc});
}
