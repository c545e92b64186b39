// penstock bench reindex: `penstock embed` of a file beside the kernels alone.
#include "bench/reindex.h"
#include "command_line.h"
#include "commands.h"
#include "hub/hub.h"
#include "sched/encoder_scheduler.h"

namespace penstock {
namespace {

struct ReindexFlags {
  ReindexOptions options;
  std::string model;
  std::string lengths = "lognormal:64,0.8,4,250";
  std::string json_file;
};

void AddFlags(FlagSet* app, ReindexFlags* flags) {
  ReindexOptions& options = flags->options;
  const std::string group = "Kernels, embed and server";
  app->AddOption("-m,--model", flags->model, "Folder, or owner/name on the Hugging Face hub.")
      ->TypeName("REF")
      ->Required()
      ->Group(group);
  app->AddOption("-t,--threads", options.threads,
                 "Threads that compute, of each; 0 = one a processor.")
      ->Check(InRange(0, 256))
      ->TypeName("N")
      ->Group(group);
  app->AddOption("--max-batch-tokens", options.batch_tokens, "Tokens of one batch, of each.")
      ->Check(InRange(1, 1 << 20))
      ->TypeName("TOKENS")
      ->Group(group);
  app->AddOption("--rounds", options.rounds, "Rounds: kernel loop, embed, embed --url.")
      ->Check(InRange(1, 1000))
      ->TypeName("N")
      ->Group(group);

  const std::string texts = "Texts";
  app->AddOption("--texts", options.text_file, "File with a text a line; none = texts are made up.")
      ->TypeName("FILE")
      ->Group(texts);
  app->AddOption("--rows", options.texts,
                 "Texts of a round; the file's over again if it has fewer.")
      ->Check(InRange(2, 100'000'000))
      ->TypeName("N")
      ->Group(texts);
  app->AddOption("--lengths", flags->lengths,
                 "Words of made texts: fixed:N, uniform:MIN,MAX or lognormal:MEAN,SIGMA,MIN,MAX.")
      ->TypeName("SPEC")
      ->Group(texts);
  app->AddOption("--seed", options.seed, "Seed of made texts.")->TypeName("N")->Group(texts);

  app->AddOption("--json", flags->json_file, "File for the records, a JSON object a line.")
      ->TypeName("FILE")
      ->Group("Output");
}

}  // namespace

int RunBenchReindex(const std::vector<std::string>& args) {
  CommandLine line(
      "bench reindex",
      "How much of the throughput of the kernels alone `penstock embed` of a file\n"
      "keeps, with a model of its own and by --url from a server on loopback.",
      "  penstock bench reindex --model MODEL --texts passages.txt --json reindex.json\n");
  ReindexFlags flags;
  flags.options.batch_tokens = static_cast<size_t>(EncoderSchedulerOptions().max_batch_tokens);
  AddFlags(&line.flags(), &flags);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  auto lengths = LengthSpec::Parse(flags.lengths);
  if (!lengths.ok()) return line.FailUsage("--lengths: " + lengths.status().message());
  flags.options.lengths = *lengths;
  auto folder = ResolveModel(flags.model, {});
  if (!folder.ok()) return line.Fail(folder.status());
  flags.options.model_folder = *folder;
  BenchRecords records;
  Status status = RunReindex(flags.options, &records);
  if (status.ok()) status = records.WriteFile(flags.json_file);
  return status.ok() ? kExitOk : line.Fail(status);
}

}  // namespace penstock
