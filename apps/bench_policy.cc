// penstock bench policy: batching policies, simulated.
#include "bench/policy_compare.h"
#include "bench/policy_shared.h"
#include "command_line.h"
#include "commands.h"
#include "model_flags.h"

namespace penstock::cli {
namespace {

// Times of all-MiniLM-L6-v2, if no model is given: measured on one AVX-512 thread of a busy
// machine.
constexpr sched::BatchTimes kMiniLmTimes = {.fixed_s = 165e-6, .token_s = 194e-6, .work_s = 111e-9};

struct PolicyFlags {
  bench::PolicyBenchOptions options;
  std::string model;
  int threads = 0;
  std::string json_file;
};

void AddFlags(FlagSet* app, PolicyFlags* flags) {
  bench::PolicyBenchOptions& options = flags->options;
  const FlagGroup model(app, "Cost of a batch");
  model.Add("-m,--model", flags->model, "REF",
            "Measure it on this model; else that of all-MiniLM-L6-v2 is used.");
  model.Add("-t,--threads", flags->threads, "N", InRange(0, 256),
            "Threads that compute; 0 = one a processor.");
  const FlagGroup arrivals(app, "Arrivals");
  arrivals
      .Add("--loads", options.loads, "X,...", InRange(0.01, 2.0),
           "Parts of the rate the model can do.")
      ->Delimiter(',');
  arrivals.Add("--simulated-s", options.simulated_s, "S", InRange(0.1, 86'400.0),
               "Seconds of arrivals, simulated, a cell.");
  arrivals.Add("--length-median", options.length_median, "TOKENS", InRange(1.0, 8192.0),
               "Tokens of a row, log-normal.");
  arrivals.Add("--length-sigma", options.length_sigma, "X", InRange(0.0, 3.0), "Its sigma.");
  arrivals.Add("--length-max", options.length_max, "TOKENS", InRange(4, 1 << 17), "Longest row.");
  arrivals.Add("--seed", options.seed, "N", "Seed of the arrivals.");
  FlagGroup(app, "Output")
      .Add("--json", flags->json_file, "FILE", "File for the records, a JSON object a line.");
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
  AddFlags(&line.flags(), &flags);
  if (const auto exit_code = line.Parse(args)) return *exit_code;
  if (!flags.model.empty()) {
    runtime::ModelOptions model;
    model.models = {flags.model};
    model.threads = flags.threads;
    auto local = runtime::LocalModels::Load(model);
    if (!local.ok()) return line.Fail(local.status());
    flags.options.times =
        (*local)->registry->List().front().As<engine::EncoderEngine>()->scheduler().times();
  }
  load::BenchRecords records;
  Status status = bench::RunPolicyBench(flags.options, &records);
  if (status.ok()) status = bench::RunSharedPolicyBench(flags.options, &records);
  if (status.ok()) status = records.WriteFile(flags.json_file);
  return status.ok() ? kExitOk : line.Fail(status);
}

}  // namespace penstock::cli
