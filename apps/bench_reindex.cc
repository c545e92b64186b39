// penstock bench reindex: `penstock embed` of a file beside the kernels alone.
#include "bench/reindex.h"
#include "cli/command_line.h"
#include "commands.h"
#include "devices/backends.h"
#include "hub/hub.h"
#include "model_flags.h"
#include "sched/encoder_scheduler.h"

namespace penstock::cli {
namespace {

struct ReindexFlags {
  bench::ReindexOptions options;
  std::string model;
  std::string lengths = "lognormal:64,0.8,4,250";
  std::string json_file;
};

void AddFlags(FlagSet* app, ReindexFlags* flags) {
  bench::ReindexOptions& options = flags->options;
  const FlagGroup group(app, "Kernels, embed and server");
  group.Add("-m,--model", flags->model, "REF", "Folder, or owner/name on the Hugging Face hub.")
      ->Required();
  AddDeviceFlag(group, &options.device);
  group.Add("-t,--threads", options.threads, "N", InRange(0, 256),
            "Threads that compute, of each; 0 = one a processor.");
  group.Add("--max-batch-tokens", options.batch_tokens, "TOKENS", InRange(1, 1 << 20),
            "Tokens of one batch, of each.");
  group.Add("--rounds", options.rounds, "N", InRange(1, 1000),
            "Rounds: kernel loop, embed, embed --url.");

  const FlagGroup texts(app, "Texts");
  texts.Add("--texts", options.text_file, "FILE",
            "File with a text a line; none = texts are made up.");
  texts.Add("--rows", options.texts, "N", InRange(2, 100'000'000),
            "Texts of a round; the file's over again if it has fewer.");
  texts.Add("--lengths", flags->lengths, "SPEC",
            "Words of made texts: fixed:N, uniform:MIN,MAX or lognormal:MEAN,SIGMA,MIN,MAX.");
  texts.Add("--seed", options.seed, "N", "Seed of made texts.");

  FlagGroup(app, "Output")
      .Add("--json", flags->json_file, "FILE", "File for the records, a JSON object a line.");
}

}  // namespace

int RunBenchReindex(const std::vector<std::string>& args) {
  CommandLine line(
      "bench reindex",
      "How much of the throughput of the kernels alone `penstock embed` of a file\n"
      "keeps, with a model of its own and by --url from a server on loopback.",
      "  penstock bench reindex --model MODEL --texts passages.txt --json reindex.json\n");
  ReindexFlags flags;
  flags.options.device = devices::Devices::kAuto;
  flags.options.batch_tokens =
      static_cast<size_t>(sched::EncoderSchedulerOptions().max_batch_tokens);
  AddFlags(&line.flags(), &flags);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  auto lengths = load::LengthSpec::Parse(flags.lengths);
  if (!lengths.ok()) return line.FailUsage("--lengths: " + lengths.status().message());
  flags.options.lengths = *lengths;
  auto folder = hub::ResolveModel(flags.model, {});
  if (!folder.ok()) return line.Fail(folder.status());
  flags.options.model_folder = *folder;
  load::BenchRecords records;
  Status status = bench::RunReindex(flags.options, &records);
  if (status.ok()) status = records.WriteFile(flags.json_file);
  return status.ok() ? kExitOk : line.Fail(status);
}

}  // namespace penstock::cli
