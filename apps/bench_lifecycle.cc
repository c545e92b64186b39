// penstock bench lifecycle: how soon models come, and whether they leave nothing behind.
#include "bench/lifecycle.h"
#include "command_line.h"
#include "commands.h"
#include "hub/default_model.h"

namespace penstock::cli {

int RunBenchLifecycle(const std::vector<std::string>& args) {
  CommandLine line(
      "bench lifecycle",
      "Start, first answer, reload, many callers of an absent model, and loads and unloads under\n"
      "traffic. Starts servers of its own.",
      "  penstock bench lifecycle\n"
      "  penstock bench lifecycle -m ./embedder --reranker ./reranker --generator model.gguf "
      "--cycles 1000\n");
  bench::LifecycleOptions options;
  std::string json_file;
  const FlagGroup model(&line.flags(), "Model");
  model.Add("-m,--model", options.embedder, "REF", "Model of embeddings.")
      ->DefaultText(hub::kDefaultModel);
  model.Add("--reranker", options.reranker, "REF", "Model that reranks; none = left out.");
  model.Add("--generator", options.generator, "REF", "Model that generates text; none = left out.");
  const FlagGroup group(&line.flags(), "Benchmark");
  group.Add("--rounds", options.rounds, "N", InRange(1, 1000),
            "Rounds of each time; the median counts.");
  group.Add("--cycles", options.cycles, "N", InRange(0, 1'000'000),
            "Unloads and loads under traffic, over all models.");
  group.Add("--callers", options.callers, "N", InRange(1, 1000),
            "Callers of one absent model at once.");
  group.AddRepeated("--server-flag", options.server_flags, "FLAG",
                    "Flag for the servers, as --server-flag=--threads=1. May be given again.");
  group.Add("--json", json_file, "FILE", "File for the records, a JSON object a line.");
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  if (options.embedder.empty()) options.embedder = hub::FindDefaultModel().reference;
  load::BenchRecords records;
  Status status = bench::MeasureLifecycle(options, &records);
  if (status.ok()) status = records.WriteFile(json_file);
  return status.ok() ? kExitOk : line.Fail(status);
}

}  // namespace penstock::cli
