// penstock-lab policy, second table: two models on one processor, simulated (policy_sim.h), and
// what the gate between them (gate/compute_gate.h) promises.
#pragma once

#include "base/status.h"
#include "lab/policy_compare.h"
#include "load/records.h"

namespace penstock::lab {

// Prints the table and adds
//   policy.gate_interactive_p95_over_bound  interactive work on one model beside bulk work on the
//                                           other: 95th percentile of a job's latency over that of
//                                           its own batch + 25 ms, worst of the loads; at most 1
//   policy.gate_bulk_share                  bulk's share of the processor where interactive work
//                                           could take all of it; 1 / 9 is due
//   policy.gate_share_error                 two models that always have work of one class: how far
//                                           one is from half the time, the worst; at most 0.05
Status RunSharedPolicyBench(const PolicyBenchOptions& options, load::BenchRecords* records);

}  // namespace penstock::lab
