// penstock bench saturation: a whole server beside its kernels alone.
#include "bench/saturation.h"
#include "command_line.h"
#include "commands.h"
#include "hub/hub.h"
#include "sched/encoder_scheduler.h"

namespace penstock {
namespace {

struct SaturationFlags {
  SaturationOptions options;
  std::string model;
  std::string lengths = "lognormal:64,0.8,4,250";
  std::string json_file;
};

void AddServerFlags(FlagSet* app, SaturationFlags* flags) {
  SaturationOptions& options = flags->options;
  const std::string server = "Server and kernels";
  app->AddOption("-m,--model", flags->model, "Folder, or owner/name on the Hugging Face hub.")
      ->TypeName("REF")
      ->Required()
      ->Group(server);
  app->AddOption("-t,--threads", options.threads,
                 "Threads that compute, of each; 0 = one a processor.")
      ->Check(InRange(0, 256))
      ->TypeName("N")
      ->Group(server);
  app->AddOption("--max-batch-tokens", options.batch_tokens, "Tokens of one batch, of each.")
      ->Check(InRange(1, 1 << 20))
      ->TypeName("TOKENS")
      ->Group(server);
  app->AddOption("--server-flag", options.server_flags,
                 "Flag for the server, as --server-flag=--io-threads=1. May be given again.")
      ->TypeName("FLAG")
      ->AllowExtraArgs(false)
      ->Group(server);
}

void AddLoadFlags(FlagSet* app, SaturationFlags* flags) {
  SaturationOptions& options = flags->options;
  const std::string load = "Load";
  app->AddOption("--lengths", flags->lengths,
                 "Words of texts: fixed:N, uniform:MIN,MAX or lognormal:MEAN,SIGMA,MIN,MAX.")
      ->TypeName("SPEC")
      ->Group(load);
  app->AddOption("--seed", options.seed, "Seed of the texts.")->TypeName("N")->Group(load);
  app->AddOption("--concurrency", options.concurrency, "Clients that load the server.")
      ->Check(InRange(1, 10'000))
      ->TypeName("N")
      ->Group(load);
  app->AddOption("--batch", options.batch, "Texts of one request.")
      ->Check(InRange(1, 100'000))
      ->TypeName("N")
      ->Group(load);
  app->AddOption("--rounds", options.rounds, "Rounds: server, kernel loop, in turn.")
      ->Check(InRange(1, 1000))
      ->TypeName("N")
      ->Group(load);
  app->AddOption("--round-s", options.round_s, "Seconds of each of them.")
      ->Check(InRange(0.1, 3600.0))
      ->TypeName("S")
      ->Group(load);
  app->AddSwitch("--float,!--no-float", options.with_float,
                 "Also with answers as JSON numbers instead of base64. [on]")
      ->Group(load);

  const std::string interactive = "Interactive requests under bulk load";
  app->AddOption("--interactive-s", options.interactive_s,
                 "Seconds alone and again under load; 0 = leave it out.")
      ->Check(InRange(0.0, 3600.0))
      ->TypeName("S")
      ->Group(interactive);
  app->AddOption("--interactive-rate", options.interactive_rate, "Requests of one text, a second.")
      ->Check(InRange(0.1, 1e6))
      ->TypeName("R")
      ->Group(interactive);
  app->AddOption("--bulk-concurrency", options.bulk_concurrency, "Clients of the bulk load.")
      ->Check(InRange(1, 10'000))
      ->TypeName("N")
      ->Group(interactive);
  app->AddOption("--bulk-batch", options.bulk_batch, "Texts of one bulk request.")
      ->Check(InRange(1, 100'000))
      ->TypeName("N")
      ->Group(interactive);

  app->AddOption("--json", flags->json_file, "File for the records, a JSON object a line.")
      ->TypeName("FILE")
      ->Group("Output");
}

}  // namespace

int RunBenchSaturation(const std::vector<std::string>& args) {
  CommandLine line(
      "bench saturation",
      "How much of the throughput of the kernels alone a whole server keeps, and how "
      "long an\ninteractive request takes under full bulk load. Starts a server of its "
      "own.",
      "  penstock bench saturation --model MODEL --json saturation.json\n");
  SaturationFlags flags;
  flags.options.batch_tokens = static_cast<size_t>(EncoderSchedulerOptions().max_batch_tokens);
  AddServerFlags(&line.flags(), &flags);
  AddLoadFlags(&line.flags(), &flags);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  auto lengths = LengthSpec::Parse(flags.lengths);
  if (!lengths.ok()) return line.FailUsage("--lengths: " + lengths.status().message());
  flags.options.lengths = *lengths;
  auto folder = ResolveModel(flags.model, {});
  if (!folder.ok()) return line.Fail(folder.status());
  flags.options.model_folder = *folder;
  BenchRecords records;
  Status status = RunSaturation(flags.options, &records);
  if (status.ok()) status = records.WriteFile(flags.json_file);
  return status.ok() ? kExitOk : line.Fail(status);
}

}  // namespace penstock
