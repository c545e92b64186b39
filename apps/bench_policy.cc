// penstock bench policy: batching policies, simulated.
#include "bench/policy_compare.h"
#include "bench/policy_shared.h"
#include "command_line.h"
#include "commands.h"
#include "model_flags.h"

namespace penstock {
namespace {

// Times of all-MiniLM-L6-v2, if no model is given: measured on one AVX-512 thread of a busy
// machine.
constexpr BatchTimes kMiniLmTimes = {.fixed_s = 165e-6, .token_s = 194e-6, .work_s = 111e-9};

struct PolicyFlags {
  PolicyBenchOptions options;
  std::string model;
  int threads = 0;
  std::string json_file;
};

void AddFlags(FlagSet* app, PolicyFlags* flags) {
  PolicyBenchOptions& options = flags->options;
  const std::string model = "Cost of a batch";
  app->AddOption("-m,--model", flags->model,
                 "Measure it on this model; else that of all-MiniLM-L6-v2 is used.")
      ->TypeName("REF")
      ->Group(model);
  app->AddOption("-t,--threads", flags->threads, "Threads that compute; 0 = one a processor.")
      ->Check(InRange(0, 256))
      ->TypeName("N")
      ->Group(model);
  const std::string arrivals = "Arrivals";
  app->AddOption("--loads", options.loads, "Parts of the rate the model can do.")
      ->Check(InRange(0.01, 2.0))
      ->Delimiter(',')
      ->TypeName("X,...")
      ->Group(arrivals);
  app->AddOption("--simulated-s", options.simulated_s, "Seconds of arrivals, simulated, a cell.")
      ->Check(InRange(0.1, 86'400.0))
      ->TypeName("S")
      ->Group(arrivals);
  app->AddOption("--length-median", options.length_median, "Tokens of a row, log-normal.")
      ->Check(InRange(1.0, 8192.0))
      ->TypeName("TOKENS")
      ->Group(arrivals);
  app->AddOption("--length-sigma", options.length_sigma, "Its sigma.")
      ->Check(InRange(0.0, 3.0))
      ->TypeName("X")
      ->Group(arrivals);
  app->AddOption("--length-max", options.length_max, "Longest row.")
      ->Check(InRange(4, 1 << 17))
      ->TypeName("TOKENS")
      ->Group(arrivals);
  app->AddOption("--seed", options.seed, "Seed of the arrivals.")->TypeName("N")->Group(arrivals);
  app->AddOption("--json", flags->json_file, "File for the records, a JSON object a line.")
      ->TypeName("FILE")
      ->Group("Output");
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
    ModelOptions model;
    model.models = {flags.model};
    model.threads = flags.threads;
    auto local = LocalModels::Load(model);
    if (!local.ok()) return line.Fail(local.status());
    flags.options.times =
        (*local)->registry->List().front().As<EncoderEngine>()->scheduler().times();
  }
  BenchRecords records;
  Status status = RunPolicyBench(flags.options, &records);
  if (status.ok()) status = RunSharedPolicyBench(flags.options, &records);
  if (status.ok()) status = records.WriteFile(flags.json_file);
  return status.ok() ? kExitOk : line.Fail(status);
}

}  // namespace penstock
