#include "round_flags.h"

#include "model_flags.h"

namespace penstock {

int RunRounds(CommandLine* line, const std::vector<std::string>& args, RoundOptions* options,
              const std::string& rounds_help,
              const std::function<Status(LocalModels* models, BenchRecords* records)>& run) {
  ModelOptions model;
  std::string lengths = "fixed:8";
  std::string json_file;
  AddModelFlags(line, &model, false, "warn");
  FlagSet& app = line->flags();
  const std::string group = "Run";
  app.AddOption("--concurrency", options->concurrency, "Clients; each asks for one text at a time.")
      ->Check(InRange(1, 1000))
      ->TypeName("N")
      ->Group(group);
  app.AddOption("--rounds", options->rounds, rounds_help)
      ->Check(InRange(2, 100'000))
      ->TypeName("N")
      ->Group(group);
  app.AddOption("--round", options->round_s, "Seconds of a round.")
      ->Check(InRange(0.01, 60.0))
      ->TypeName("S")
      ->Group(group);
  app.AddOption("--lengths", lengths,
                "Words of the texts: fixed:N, uniform:MIN,MAX or lognormal:MEAN,SIGMA,MIN,MAX.")
      ->TypeName("SPEC")
      ->Group(group);
  app.AddOption("--json", json_file, "File for the records, a JSON object a line.")
      ->TypeName("FILE")
      ->Group("Output");
  if (const auto exit_code = line->Parse(args)) return *exit_code;
  if (const Status log = ApplyLogFlags(model); !log.ok()) return line->FailUsage(log.message());
  auto spec = LengthSpec::Parse(lengths);
  if (!spec.ok()) return line->FailUsage("--lengths: " + spec.status().message());
  options->lengths = *spec;
  auto local = LocalModels::Load(model);
  if (!local.ok()) return line->Fail(local.status());
  BenchRecords records;
  Status status = run(local->get(), &records);
  if (status.ok()) status = records.WriteFile(json_file);
  return status.ok() ? kExitOk : line->Fail(status);
}

}  // namespace penstock
