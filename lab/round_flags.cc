#include "lab/round_flags.h"

#include "apps/model_flags.h"

namespace penstock::lab {

int RunRounds(
    cli::CommandLine* line, const std::vector<std::string>& args, RoundOptions* options,
    const std::string& rounds_help,
    const std::function<Status(runtime::LocalModels* models, load::BenchRecords* records)>& run) {
  runtime::ModelOptions model;
  std::string lengths = "fixed:8";
  std::string json_file;
  cli::AddModelFlags(line, &model, false, "warn");
  cli::FlagSet& app = line->flags();
  const cli::FlagGroup group(&app, "Run");
  group.Add("--concurrency", options->concurrency, "N", cli::InRange(1, 1000),
            "Clients; each asks for one text at a time.");
  group.Add("--rounds", options->rounds, "N", cli::InRange(2, 100'000), rounds_help);
  group.Add("--round", options->round_s, "S", cli::InRange(0.01, 60.0), "Seconds of a round.");
  group.Add("--lengths", lengths, "SPEC",
            "Words of the texts: fixed:N, uniform:MIN,MAX or lognormal:MEAN,SIGMA,MIN,MAX.");
  cli::FlagGroup(&app, "Output")
      .Add("--json", json_file, "FILE", "File for the records, a JSON object a line.");
  if (const auto exit_code = line->Parse(args)) return *exit_code;
  if (const Status log = cli::ApplyLogFlags(model); !log.ok())
    return line->FailUsage(log.message());
  auto spec = load::LengthSpec::Parse(lengths);
  if (!spec.ok()) return line->FailUsage("--lengths: " + spec.status().message());
  options->lengths = *spec;
  auto local = runtime::LocalModels::Load(model);
  if (!local.ok()) return line->Fail(local.status());
  load::BenchRecords records;
  Status status = run(local->get(), &records);
  if (status.ok()) status = records.WriteFile(json_file);
  return status.ok() ? cli::kExitOk : line->Fail(status);
}

}  // namespace penstock::lab
