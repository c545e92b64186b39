// penstock bench policy: batching policies, simulated.
#include "bench/policy_compare.h"
#include "bench/policy_shared.h"
#include "command_line.h"
#include "commands.h"
#include "model_flags.h"

namespace penstock {
namespace {

// Of all-MiniLM-L6-v2, where no model is given: measured on one AVX-512 thread of a busy machine.
constexpr BatchTimes kMiniLmTimes = {.fixed_s = 165e-6, .token_s = 194e-6, .work_s = 111e-9};

struct PolicyFlags {
  PolicyBenchOptions options;
  std::string model;
  int threads = 0;
  std::string json_file;
};

void AddFlags(CLI::App* app, PolicyFlags* flags) {
  PolicyBenchOptions& options = flags->options;
  const std::string model = "Cost of a batch";
  app->add_option("-m,--model", flags->model,
                  "Measure it on this model; else that of all-MiniLM-L6-v2 is used.")
      ->type_name("REF")
      ->group(model);
  app->add_option("-t,--threads", flags->threads, "Threads that compute; 0 = one a processor.")
      ->check(CLI::Range(0, 256))
      ->type_name("N")
      ->group(model);
  const std::string arrivals = "Arrivals";
  app->add_option("--loads", options.loads, "Parts of the rate the model can do.")
      ->check(CLI::Range(0.01, 2.0))
      ->delimiter(',')
      ->type_name("X,...")
      ->group(arrivals);
  app->add_option("--simulated-s", options.simulated_s, "Seconds of arrivals, simulated, a cell.")
      ->check(CLI::Range(0.1, 86'400.0))
      ->type_name("S")
      ->group(arrivals);
  app->add_option("--length-median", options.length_median, "Tokens of a row, log-normal.")
      ->check(CLI::Range(1.0, 8192.0))
      ->type_name("TOKENS")
      ->group(arrivals);
  app->add_option("--length-sigma", options.length_sigma, "Its sigma.")
      ->check(CLI::Range(0.0, 3.0))
      ->type_name("X")
      ->group(arrivals);
  app->add_option("--length-max", options.length_max, "Longest row.")
      ->check(CLI::Range(4, 1 << 17))
      ->type_name("TOKENS")
      ->group(arrivals);
  app->add_option("--seed", options.seed, "Of the arrivals.")->type_name("N")->group(arrivals);
  app->add_option("--json", flags->json_file, "File for the records, a JSON object a line.")
      ->type_name("FILE")
      ->group("Output");
}

}  // namespace

int RunBenchPolicy(const std::vector<std::string>& args) {
  CommandLine line("bench policy",
                   "Batching policies on simulated arrivals: fixed batches with a timeout, "
                   "preferred sizes with a\ndelay, and the scheduler of this program itself.",
                   "  penstock bench policy --json policy.json\n"
                   "  penstock bench policy --model sentence-transformers/all-MiniLM-L6-v2\n");
  PolicyFlags flags;
  flags.options.times = kMiniLmTimes;
  AddFlags(&line.app(), &flags);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  if (!flags.model.empty()) {
    ModelOptions model;
    model.models = {flags.model};
    model.threads = flags.threads;
    auto local = LocalModels::Load(model);
    if (!local.ok()) return line.Fail(local.status());
    flags.options.times = (*local)->registry->List().front().engine->scheduler().times();
  }
  BenchRecords records;
  Status status = RunPolicyBench(flags.options, &records);
  if (status.ok()) status = RunSharedPolicyBench(flags.options, &records);
  if (status.ok()) status = records.WriteFile(flags.json_file);
  return status.ok() ? kExitOk : line.Fail(status);
}

}  // namespace penstock
