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

void AddFlags(CLI::App* app, ReindexFlags* flags) {
  ReindexOptions& options = flags->options;
  const std::string group = "Kernels, embed and server";
  app->add_option("-m,--model", flags->model, "Folder, or owner/name on the Hugging Face hub.")
      ->type_name("REF")
      ->required()
      ->group(group);
  app->add_option("-t,--threads", options.threads,
                  "Threads that compute, of each; 0 = one a processor.")
      ->check(CLI::Range(0, 256))
      ->type_name("N")
      ->group(group);
  app->add_option("--max-batch-tokens", options.batch_tokens, "Tokens of one batch, of each.")
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("TOKENS")
      ->group(group);
  app->add_option("--rounds", options.rounds, "Rounds: kernel loop, embed, embed --url.")
      ->check(CLI::Range(1, 1000))
      ->type_name("N")
      ->group(group);

  const std::string texts = "Texts";
  app->add_option("--texts", options.text_file,
                  "File with a text a line; none = texts are made up.")
      ->type_name("FILE")
      ->group(texts);
  app->add_option("--rows", options.texts,
                  "Texts of a round; the file's over again if it has fewer.")
      ->check(CLI::Range(2, 100'000'000))
      ->type_name("N")
      ->group(texts);
  app->add_option("--lengths", flags->lengths,
                  "Words of made texts: fixed:N, uniform:MIN,MAX or lognormal:MEAN,SIGMA,MIN,MAX.")
      ->type_name("SPEC")
      ->group(texts);
  app->add_option("--seed", options.seed, "Of made texts.")->type_name("N")->group(texts);

  app->add_option("--json", flags->json_file, "File for the records, a JSON object a line.")
      ->type_name("FILE")
      ->group("Output");
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
  AddFlags(&line.app(), &flags);
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
