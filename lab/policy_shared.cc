#include "lab/policy_shared.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "load/table.h"
#include "program/backend.h"
#include "sched/encoder_scheduler.h"

namespace penstock::lab {
namespace {

// How many times larger the other model is: its batches take longer and its share is not one of
// batches.
constexpr double kLargerModel = 3;
// Longest simulated time; queues grow all the time where there is more than enough work.
constexpr double kSecondsMax = 60;
constexpr size_t kSharedBulkRows = 256;

struct Cell {
  std::string name;
  std::vector<EngineLoad> engines;
  std::vector<EngineOutcome> outcomes;
  double seconds = 0;
};

EngineLoad LoadOf(const PolicyBenchOptions& options, double slower) {
  EngineLoad load;
  load.times = {options.times.fixed_s * slower, options.times.token_s * slower,
                options.times.work_s * slower};
  load.policy.length_max = options.length_max;
  load.policy.max_batch_tokens = sched::KneeTokens(load.times, std::min(32, options.length_max),
                                                   program::BackendSizes().batch_tokens);
  return load;
}

double TokensPerSecond(const EngineLoad& load) {
  return load.policy.max_batch_tokens / load.times.Seconds(load.policy.max_batch_tokens, 0);
}

// Work enough for `seconds`, there from the start.
void FillWithBulk(double seconds, Priority priority, EngineLoad* load) {
  constexpr int32_t kLength = 32;
  const double tokens = 1.2 * TokensPerSecond(*load) * seconds;
  for (double sum = 0; sum < tokens; sum += static_cast<double>(kSharedBulkRows) * kLength) {
    load->jobs.push_back({0, priority, std::vector<int32_t>(kSharedBulkRows, kLength)});
  }
}

double PercentileOf(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto at = static_cast<size_t>(share * static_cast<double>(values.size()));
  return values[std::min(values.size() - 1, at)];
}

// Percentiles of jobs that were answered.
double OwnBatchP95(const EngineOutcome& outcome) {
  std::vector<double> own_s;
  for (size_t i = 0; i < outcome.own_batch_s.size(); ++i) {
    if (outcome.jobs.latency_s[i] > 0) own_s.push_back(outcome.own_batch_s[i]);
  }
  return PercentileOf(std::move(own_s), 0.95);
}
double LatencyP95(const EngineOutcome& outcome) {
  std::vector<double> latency_s;
  for (const double s : outcome.jobs.latency_s) {
    if (s > 0) latency_s.push_back(s);
  }
  return PercentileOf(std::move(latency_s), 0.95);
}

void AddRows(const Cell& cell, load::BenchTable* table) {
  double busy_s = 0;
  for (const EngineOutcome& outcome : cell.outcomes) busy_s += outcome.busy_s;
  for (size_t i = 0; i < cell.engines.size(); ++i) {
    const EngineOutcome& outcome = cell.outcomes[i];
    const bool bulk = cell.engines[i].jobs.front().priority == Priority::kBulk;
    table->AddRow({i == 0 ? cell.name : "", fmt::format("{}", i == 0 ? "small" : "large"),
                   bulk ? "bulk" : "interactive",
                   bulk ? "" : load::ShortNumber(1000 * OwnBatchP95(outcome)),
                   bulk ? "" : load::ShortNumber(1000 * LatencyP95(outcome)),
                   fmt::format("{:.1f} %", 100 * outcome.busy_s / busy_s),
                   fmt::format("{}", outcome.jobs.batches)});
  }
}

Status RunCell(double seconds, Cell* cell, load::BenchTable* table) {
  cell->seconds = seconds;
  PENSTOCK_ASSIGN_OR_RETURN(cell->outcomes, SimulateShared(cell->engines, seconds));
  AddRows(*cell, table);
  return Status::Ok();
}

double ShareOf(const Cell& cell, size_t engine) {
  double busy_s = 0;
  for (const EngineOutcome& outcome : cell.outcomes) busy_s += outcome.busy_s;
  return cell.outcomes[engine].busy_s / busy_s;
}

}  // namespace

Status RunSharedPolicyBench(const PolicyBenchOptions& options, load::BenchRecords* records) {
  const double seconds = std::min(options.simulated_s, kSecondsMax);
  load::BenchTable table(
      {"two models", "model", "class", "own batch p95 ms", "p95 ms", "time", "batches"});
  double over_bound = 0;
  for (const double load : {0.05, 0.1, 0.2}) {
    Cell cell{fmt::format("interactive load={}, bulk", load),
              {LoadOf(options, 1), LoadOf(options, kLargerModel)},
              {},
              0};
    cell.engines[0].jobs =
        MakeArrivals(Arrivals::kPoisson, load * TokensPerSecond(cell.engines[0]), seconds, options);
    if (cell.engines[0].jobs.empty()) {
      return Status::InvalidArgument("no job arrives in that time", "simulated-s");
    }
    FillWithBulk(seconds, Priority::kBulk, &cell.engines[1]);
    PENSTOCK_RETURN_IF_ERROR(RunCell(seconds, &cell, &table));
    const EngineOutcome& interactive = cell.outcomes[0];
    over_bound =
        std::max(over_bound, LatencyP95(interactive) /
                                 (OwnBatchP95(interactive) + sched::EncoderScheduler::kBulkBatchS));
  }
  Cell full{"interactive always, bulk", {LoadOf(options, 1), LoadOf(options, kLargerModel)}, {}, 0};
  FillWithBulk(seconds, Priority::kInteractive, &full.engines[0]);
  FillWithBulk(seconds, Priority::kBulk, &full.engines[1]);
  PENSTOCK_RETURN_IF_ERROR(RunCell(seconds, &full, &table));
  double share_error = 0;
  for (const Priority priority : {Priority::kInteractive, Priority::kBulk}) {
    const char* const name = priority == Priority::kBulk ? "bulk" : "interactive";
    Cell cell{fmt::format("{} always, both", name),
              {LoadOf(options, 1), LoadOf(options, kLargerModel)},
              {},
              0};
    for (EngineLoad& engine : cell.engines) FillWithBulk(seconds, priority, &engine);
    PENSTOCK_RETURN_IF_ERROR(RunCell(seconds, &cell, &table));
    share_error = std::max(share_error, std::abs(ShareOf(cell, 0) - 0.5));
  }
  fmt::print("\nTwo models on one processor; the large one takes {} times as long.\n",
             kLargerModel);
  table.Print();
  const double bulk_share = ShareOf(full, 1);
  fmt::print(
      "\ninteractive p95 / (p95 of its own batch + 25 ms), worst: {:.3f}; bulk's share of a full "
      "processor: {:.3f}; share of one of two, worst error: {:.3f}\n",
      over_bound, bulk_share, share_error);
  records->Add("policy.gate_interactive_p95_over_bound", over_bound, "1");
  records->Add("policy.gate_bulk_share", bulk_share, "1");
  records->Add("policy.gate_share_error", share_error, "1");
  return Status::Ok();
}

}  // namespace penstock::lab
