// penstock-lab saturation: a whole server beside its kernels alone.
#include "cli/command_line.h"
#include "hub/hub.h"
#include "lab/commands.h"
#include "lab/saturation.h"
#include "sched/encoder_scheduler.h"

namespace penstock::lab {
namespace {

struct SaturationFlags {
  SaturationOptions options;
  std::string model;
  std::string lengths = "lognormal:64,0.8,4,250";
  std::string json_file;
};

void AddServerFlags(cli::FlagSet* app, SaturationFlags* flags) {
  SaturationOptions& options = flags->options;
  const cli::FlagGroup server(app, "Server and kernels");
  server.Add("-m,--model", flags->model, "REF", "Folder, or owner/name on the Hugging Face hub.")
      ->Required();
  server.Add("-t,--threads", options.threads, "N", cli::InRange(0, 256),
             "Threads that compute, of each; 0 = one a processor.");
  server.Add("--max-batch-tokens", options.batch_tokens, "TOKENS", cli::InRange(1, 1 << 20),
             "Tokens of one batch, of each.");
  server.AddRepeated("--server-flag", options.server_flags, "FLAG",
                     "Flag for the server, as --server-flag=--io-threads=1. May be given again.");
}

void AddLoadFlags(cli::FlagSet* app, SaturationFlags* flags) {
  SaturationOptions& options = flags->options;
  const cli::FlagGroup load(app, "Load");
  load.Add("--lengths", flags->lengths, "SPEC",
           "Words of texts: fixed:N, uniform:MIN,MAX or lognormal:MEAN,SIGMA,MIN,MAX.");
  load.Add("--seed", options.seed, "N", "Seed of the texts.");
  load.Add("--concurrency", options.concurrency, "N", cli::InRange(1, 10'000),
           "Clients that load the server.");
  load.Add("--batch", options.batch, "N", cli::InRange(1, 100'000), "Texts of one request.");
  load.Add("--rounds", options.rounds, "N", cli::InRange(1, 1000),
           "Rounds: server, kernel loop, in turn.");
  load.Add("--round-s", options.round_s, "S", cli::InRange(0.1, 3600.0),
           "Seconds of each of them.");
  load.Switch("--float,!--no-float", options.with_float,
              "Also with answers as JSON numbers instead of base64. [on]");

  const cli::FlagGroup interactive(app, "Interactive requests under bulk load");
  interactive.Add("--interactive-s", options.interactive_s, "S", cli::InRange(0.0, 3600.0),
                  "Seconds alone and again under load; 0 = leave it out.");
  interactive.Add("--interactive-rate", options.interactive_rate, "R", cli::InRange(0.1, 1e6),
                  "Requests of one text, a second.");
  interactive.Add("--bulk-concurrency", options.bulk_concurrency, "N", cli::InRange(1, 10'000),
                  "Clients of the bulk load.");
  interactive.Add("--bulk-batch", options.bulk_batch, "N", cli::InRange(1, 100'000),
                  "Texts of one bulk request.");

  cli::FlagGroup(app, "Output")
      .Add("--json", flags->json_file, "FILE", "File for the records, a JSON object a line.");
}

}  // namespace

int SaturationCommand(const std::vector<std::string>& args) {
  cli::CommandLine line(
      "lab saturation",
      "How much of the throughput of the kernels alone a whole server keeps, and how "
      "long an\ninteractive request takes under full bulk load. Starts a server of its "
      "own.",
      "  penstock-lab saturation --model MODEL --json saturation.json\n");
  SaturationFlags flags;
  flags.options.batch_tokens =
      static_cast<size_t>(sched::EncoderSchedulerOptions().max_batch_tokens);
  AddServerFlags(&line.flags(), &flags);
  AddLoadFlags(&line.flags(), &flags);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  auto lengths = load::LengthSpec::Parse(flags.lengths);
  if (!lengths.ok()) return line.FailUsage("--lengths: " + lengths.status().message());
  flags.options.lengths = *lengths;
  auto folder = hub::ResolveModel(flags.model, {});
  if (!folder.ok()) return line.Fail(folder.status());
  flags.options.model_folder = *folder;
  load::BenchRecords records;
  Status status = RunSaturation(flags.options, &records);
  if (status.ok()) status = records.WriteFile(flags.json_file);
  return status.ok() ? cli::kExitOk : line.Fail(status);
}

}  // namespace penstock::lab
