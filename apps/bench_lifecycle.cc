// penstock bench lifecycle: how soon models come, and whether they leave nothing behind.
#include "bench/lifecycle.h"
#include "command_line.h"
#include "commands.h"
#include "hub/default_model.h"

namespace penstock {

int RunBenchLifecycle(const std::vector<std::string>& args) {
  CommandLine line(
      "bench lifecycle",
      "Start, first answer, reload, many callers of an absent model, and loads and unloads under\n"
      "traffic. Starts servers of its own.",
      "  penstock bench lifecycle\n"
      "  penstock bench lifecycle -m ./embedder --reranker ./reranker --generator model.gguf "
      "--cycles 1000\n");
  LifecycleOptions options;
  std::string json_file;
  FlagSet& app = line.flags();
  app.AddOption("-m,--model", options.embedder, "Model of embeddings.")
      ->TypeName("REF")
      ->DefaultText(kDefaultModel)
      ->Group("Model");
  app.AddOption("--reranker", options.reranker, "Model that reranks; none = left out.")
      ->TypeName("REF")
      ->Group("Model");
  app.AddOption("--generator", options.generator, "Model that generates text; none = left out.")
      ->TypeName("REF")
      ->Group("Model");
  const std::string group = "Benchmark";
  app.AddOption("--rounds", options.rounds, "Rounds of each time; the median counts.")
      ->Check(InRange(1, 1000))
      ->TypeName("N")
      ->Group(group);
  app.AddOption("--cycles", options.cycles, "Unloads and loads under traffic, over all models.")
      ->Check(InRange(0, 1'000'000))
      ->TypeName("N")
      ->Group(group);
  app.AddOption("--callers", options.callers, "Callers of one absent model at once.")
      ->Check(InRange(1, 1000))
      ->TypeName("N")
      ->Group(group);
  app.AddOption("--server-flag", options.server_flags,
                "Flag for the servers, as --server-flag=--threads=1. May be given again.")
      ->TypeName("FLAG")
      ->AllowExtraArgs(false)
      ->Group(group);
  app.AddOption("--json", json_file, "File for the records, a JSON object a line.")
      ->TypeName("FILE")
      ->Group(group);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  if (options.embedder.empty()) options.embedder = FindDefaultModel().reference;
  BenchRecords records;
  Status status = MeasureLifecycle(options, &records);
  if (status.ok()) status = records.WriteFile(json_file);
  return status.ok() ? kExitOk : line.Fail(status);
}

}  // namespace penstock
