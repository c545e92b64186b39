// penstock-lab policy: p50, p95, p99 and throughput of batching policies, simulated
// (policy_sim.h), over arrivals of several kinds and loads.
//
// The question is whether a policy beats ours at equal throughput: every policy sees the same jobs,
// and one that does not keep up with them (its last answer comes late) is not compared. In mixed
// arrivals the percentiles are those of the interactive jobs; the bulk work is in the throughput.
#pragma once

#include <cstdint>
#include <vector>

#include "lab/policy_sim.h"
#include "load/records.h"

namespace penstock::lab {

struct PolicyBenchOptions {
  sched::BatchTimes times;
  int32_t length_max = 256;
  std::vector<double> loads = {0.3, 0.6, 0.8, 0.9};  // of the rate at the knee
  double simulated_s = 1200;                         // of arrivals, for each cell of the table
  double length_median = 32;                         // log-normal, cut at 4 and length_max
  double length_sigma = 0.8;
  uint64_t seed = 1;
};

enum class Arrivals { kPoisson, kBursty, kMixed };

// Jobs of `tokens_per_s` on average for `seconds`.
//   kPoisson  of one row each
//   kBursty   of one row each, in bursts of 1 to 63 at the same moment
//   kMixed    half the tokens one row each, half of them bulk jobs of 256 rows
std::vector<PolicyJob> MakeArrivals(Arrivals arrivals, double tokens_per_s, double seconds,
                                    const PolicyBenchOptions& options);

// Prints the tables and adds policy.p95_ms by row and policy.worst_p95_ratio_vs_best_other.
Status RunPolicyBench(const PolicyBenchOptions& options, load::BenchRecords* records);

}  // namespace penstock::lab
