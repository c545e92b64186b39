// penstock-lab lifecycle: how soon models come, and whether they leave nothing behind.
#include "cli/command_line.h"
#include "hub/default_model.h"
#include "lab/commands.h"
#include "lab/lifecycle.h"

namespace penstock::lab {

int LifecycleCommand(const std::vector<std::string>& args) {
  cli::CommandLine line(
      "lab lifecycle",
      "Start, first answer, reload, many callers of an absent model, and loads and unloads under\n"
      "traffic. Starts servers of its own.",
      "  penstock-lab lifecycle\n"
      "  penstock-lab lifecycle -m ./embedder --reranker ./reranker --generator model.gguf "
      "--cycles 1000\n");
  LifecycleOptions options;
  std::string json_file;
  const cli::FlagGroup model(&line.flags(), "Model");
  model.Add("-m,--model", options.embedder, "REF", "Model of embeddings.")
      ->DefaultText(hub::kDefaultModel);
  model.Add("--reranker", options.reranker, "REF", "Model that reranks; none = left out.");
  model.Add("--generator", options.generator, "REF", "Model that generates text; none = left out.");
  const cli::FlagGroup group(&line.flags(), "Benchmark");
  group.Add("--rounds", options.rounds, "N", cli::InRange(1, 1000),
            "Rounds of each time; the median counts.");
  group.Add("--cycles", options.cycles, "N", cli::InRange(0, 1'000'000),
            "Unloads and loads under traffic, over all models.");
  group.Add("--callers", options.callers, "N", cli::InRange(1, 1000),
            "Callers of one absent model at once.");
  group.AddRepeated("--server-flag", options.server_flags, "FLAG",
                    "Flag for the servers, as --server-flag=--threads=1. May be given again.");
  group.Add("--json", json_file, "FILE", "File for the records, a JSON object a line.");
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  if (options.embedder.empty()) options.embedder = hub::FindDefaultModel().reference;
  load::BenchRecords records;
  Status status = MeasureLifecycle(options, &records);
  if (status.ok()) status = records.WriteFile(json_file);
  return status.ok() ? cli::kExitOk : line.Fail(status);
}

}  // namespace penstock::lab
