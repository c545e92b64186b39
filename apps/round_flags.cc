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
  CLI::App& app = line->app();
  const std::string group = "Run";
  app.add_option("--concurrency", options->concurrency,
                 "Clients; each asks for one text at a time.")
      ->check(CLI::Range(1, 1000))
      ->type_name("N")
      ->group(group);
  app.add_option("--rounds", options->rounds, rounds_help)
      ->check(CLI::Range(2, 100'000))
      ->type_name("N")
      ->group(group);
  app.add_option("--round", options->round_s, "Seconds of a round.")
      ->check(CLI::Range(0.01, 60.0))
      ->type_name("S")
      ->group(group);
  app.add_option("--lengths", lengths,
                 "Words of the texts: fixed:N, uniform:MIN,MAX or lognormal:MEAN,SIGMA,MIN,MAX.")
      ->type_name("SPEC")
      ->group(group);
  app.add_option("--json", json_file, "File for the records, a JSON object a line.")
      ->type_name("FILE")
      ->group("Output");
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
