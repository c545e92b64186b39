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

void AddServerFlags(CLI::App* app, SaturationFlags* flags) {
  SaturationOptions& options = flags->options;
  const std::string server = "Server and kernels";
  app->add_option("-m,--model", flags->model, "Folder, or owner/name on the Hugging Face hub.")
      ->type_name("REF")
      ->required()
      ->group(server);
  app->add_option("-t,--threads", options.threads,
                  "Threads that compute, of each; 0 = one a processor.")
      ->check(CLI::Range(0, 256))
      ->type_name("N")
      ->group(server);
  app->add_option("--max-batch-tokens", options.batch_tokens, "Tokens of one batch, of each.")
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("TOKENS")
      ->group(server);
  app->add_option("--server-flag", options.server_flags,
                  "Flag for the server, as --server-flag=--io-threads=1. May be given again.")
      ->type_name("FLAG")
      ->allow_extra_args(false)
      ->group(server);
}

void AddLoadFlags(CLI::App* app, SaturationFlags* flags) {
  SaturationOptions& options = flags->options;
  const std::string load = "Load";
  app->add_option("--lengths", flags->lengths,
                  "Words of texts: fixed:N, uniform:MIN,MAX or lognormal:MEAN,SIGMA,MIN,MAX.")
      ->type_name("SPEC")
      ->group(load);
  app->add_option("--seed", options.seed, "Of the texts.")->type_name("N")->group(load);
  app->add_option("--concurrency", options.concurrency, "Clients that load the server.")
      ->check(CLI::Range(1, 10'000))
      ->type_name("N")
      ->group(load);
  app->add_option("--batch", options.batch, "Texts of one request of theirs.")
      ->check(CLI::Range(1, 100'000))
      ->type_name("N")
      ->group(load);
  app->add_option("--rounds", options.rounds, "Rounds: server, kernel loop, in turn.")
      ->check(CLI::Range(1, 1000))
      ->type_name("N")
      ->group(load);
  app->add_option("--round-s", options.round_s, "Seconds of each of them.")
      ->check(CLI::Range(0.1, 3600.0))
      ->type_name("S")
      ->group(load);
  app->add_flag("--float,!--no-float", options.with_float,
                "Also with answers as JSON numbers instead of base64. [on]")
      ->group(load);

  const std::string interactive = "Interactive requests under bulk load";
  app->add_option("--interactive-s", options.interactive_s,
                  "Seconds alone and again under load; 0 = leave it out.")
      ->check(CLI::Range(0.0, 3600.0))
      ->type_name("S")
      ->group(interactive);
  app->add_option("--interactive-rate", options.interactive_rate, "Requests of one text, a second.")
      ->check(CLI::Range(0.1, 1e6))
      ->type_name("R")
      ->group(interactive);
  app->add_option("--bulk-concurrency", options.bulk_concurrency, "Clients of the bulk load.")
      ->check(CLI::Range(1, 10'000))
      ->type_name("N")
      ->group(interactive);
  app->add_option("--bulk-batch", options.bulk_batch, "Texts of one request of theirs.")
      ->check(CLI::Range(1, 100'000))
      ->type_name("N")
      ->group(interactive);

  app->add_option("--json", flags->json_file, "File for the records, a JSON object a line.")
      ->type_name("FILE")
      ->group("Output");
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
  AddServerFlags(&line.app(), &flags);
  AddLoadFlags(&line.app(), &flags);
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
