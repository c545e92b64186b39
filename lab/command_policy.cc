// penstock-lab policy: batching policies, simulated.
#include "apps/model_flags.h"
#include "cli/command_line.h"
#include "lab/commands.h"
#include "lab/policy_compare.h"
#include "lab/policy_shared.h"

namespace penstock::lab {
namespace {

// Times of all-MiniLM-L6-v2, if no model is given: measured on one AVX-512 thread of a busy
// machine.
constexpr sched::BatchTimes kMiniLmTimes = {.fixed_s = 165e-6, .token_s = 194e-6, .work_s = 111e-9};

struct PolicyFlags {
  PolicyBenchOptions options;
  std::string model;
  int threads = 0;
  std::string json_file;
};

void AddFlags(cli::FlagSet* app, PolicyFlags* flags) {
  PolicyBenchOptions& options = flags->options;
  const cli::FlagGroup model(app, "Cost of a batch");
  model.Add("-m,--model", flags->model, "REF",
            "Measure it on this model; else that of all-MiniLM-L6-v2 is used.");
  model.Add("-t,--threads", flags->threads, "N", cli::InRange(0, 256),
            "Threads that compute; 0 = one a processor.");
  const cli::FlagGroup arrivals(app, "Arrivals");
  arrivals
      .Add("--loads", options.loads, "X,...", cli::InRange(0.01, 2.0),
           "Parts of the rate the model can do.")
      ->Delimiter(',');
  arrivals.Add("--simulated-s", options.simulated_s, "S", cli::InRange(0.1, 86'400.0),
               "Seconds of arrivals, simulated, a cell.");
  arrivals.Add("--length-median", options.length_median, "TOKENS", cli::InRange(1.0, 8192.0),
               "Tokens of a row, log-normal.");
  arrivals.Add("--length-sigma", options.length_sigma, "X", cli::InRange(0.0, 3.0), "Its sigma.");
  arrivals.Add("--length-max", options.length_max, "TOKENS", cli::InRange(4, 1 << 17),
               "Longest row.");
  arrivals.Add("--seed", options.seed, "N", "Seed of the arrivals.");
  cli::FlagGroup(app, "Output")
      .Add("--json", flags->json_file, "FILE", "File for the records, a JSON object a line.");
}

}  // namespace

int PolicyCommand(const std::vector<std::string>& args) {
  cli::CommandLine line("lab policy",
                        "Batching policies on simulated arrivals: fixed batches with a timeout, "
                        "preferred sizes with a\ndelay, and the scheduler of this program itself.",
                        "  penstock-lab policy --json policy.json\n"
                        "  penstock-lab policy --model sentence-transformers/all-MiniLM-L6-v2\n");
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
  Status status = RunPolicyBench(flags.options, &records);
  if (status.ok()) status = RunSharedPolicyBench(flags.options, &records);
  if (status.ok()) status = records.WriteFile(flags.json_file);
  return status.ok() ? cli::kExitOk : line.Fail(status);
}

}  // namespace penstock::lab
