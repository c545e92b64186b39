// penstock bench ui: what the web page costs.
#include "bench/ui_cost.h"
#include "command_line.h"
#include "commands.h"
#include "model_flags.h"

namespace penstock {

int RunBenchUi(const std::vector<std::string>& args) {
  CommandLine line("bench ui",
                   "Measure what the web page costs: a server over loopback under the same load,\n"
                   "in turns without watchers, with one and with fifty; and the page's bytes.",
                   "  penstock bench ui --model sentence-transformers/all-MiniLM-L6-v2\n"
                   "  penstock bench ui --model MODEL --rounds 60 --json ui.json\n");
  ModelOptions model;
  UiCostOptions options;
  std::string lengths = "fixed:8";
  std::string json_file;
  AddModelFlags(&line, &model, false, "warn");
  CLI::App& app = line.app();
  const std::string run = "Run";
  app.add_option("--concurrency", options.concurrency, "Clients; each asks for one text at a time.")
      ->check(CLI::Range(1, 1000))
      ->type_name("N")
      ->group(run);
  app.add_option("--rounds", options.rounds, "Rounds of each number of watchers.")
      ->check(CLI::Range(2, 100'000))
      ->type_name("N")
      ->group(run);
  app.add_option("--round", options.round_s, "Seconds of a round.")
      ->check(CLI::Range(0.01, 60.0))
      ->type_name("S")
      ->group(run);
  app.add_option("--lengths", lengths,
                 "Words of the texts: fixed:N, uniform:MIN,MAX or lognormal:MEAN,SIGMA,MIN,MAX.")
      ->type_name("SPEC")
      ->group(run);
  app.add_option("--json", json_file, "File for the records, a JSON object a line.")
      ->type_name("FILE")
      ->group("Output");
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  if (const Status log = ApplyLogFlags(model); !log.ok()) return line.FailUsage(log.message());
  auto spec = LengthSpec::Parse(lengths);
  if (!spec.ok()) return line.FailUsage("--lengths: " + spec.status().message());
  options.lengths = *spec;
  auto local = LocalModels::Load(model);
  if (!local.ok()) return line.Fail(local.status());
  BenchRecords records;
  Status status = RunUiCost((*local)->service.get(), &(*local)->metrics, options, &records);
  if (status.ok()) status = records.WriteFile(json_file);
  return status.ok() ? kExitOk : line.Fail(status);
}

}  // namespace penstock
