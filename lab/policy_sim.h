// A discrete-event simulation of one model behind a batching policy: jobs arrive at given times, a
// batch takes fixed + token * tokens + work * (sum of squared lengths) seconds (sched/
// batch_limits.h), and the result is each job's latency. Nothing waits for a real clock. One
// thread.
//
// Our policy is the real EncoderScheduler, in its manual mode and on a clock of the simulation; of
// several models that share a processor, with the real ComputeGate between them. The others are
// models of what usual servers do, each in its best case: batches cost them no padding and forming
// one no time.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "sched/batch_limits.h"
#include "threads/request_context.h"

namespace penstock::lab {

struct PolicyJob {
  double arrival_s = 0;
  Priority priority = Priority::kInteractive;
  std::vector<int32_t> lengths;  // tokens of each row
};

struct PolicyOutcome {
  std::vector<double> latency_s;  // of each job
  double end_s = 0;               // when the last one was answered
  uint64_t batches = 0;
};

// Rows wait in one queue. When the model is free it takes `rows` of them as soon as that many wait,
// else all once the oldest has waited `timeout_s`.
struct FixedBatchPolicy {
  size_t rows = 32;
  double timeout_s = 0.005;
};
// Dynamic batching with preferred sizes: when the model is free it takes the largest preferred size
// that can be filled, else all rows once the oldest has waited `delay_s`.
struct PreferredSizesPolicy {
  std::vector<size_t> sizes;  // rising
  double delay_s = 0;
};

struct OurPolicy {
  int32_t max_batch_tokens = 1024;
  int32_t length_max = 512;
};

// `jobs` by arrival.
PolicyOutcome Simulate(const FixedBatchPolicy& policy, const sched::BatchTimes& times,
                       const std::vector<PolicyJob>& jobs);
PolicyOutcome Simulate(const PreferredSizesPolicy& policy, const sched::BatchTimes& times,
                       const std::vector<PolicyJob>& jobs);
// An error of the scheduler ends it (its queue is not bounded here).
Expected<PolicyOutcome> Simulate(const OurPolicy& policy, const sched::BatchTimes& times,
                                 const std::vector<PolicyJob>& jobs);

// One of several models on a processor.
struct EngineLoad {
  OurPolicy policy;
  sched::BatchTimes times;
  std::vector<PolicyJob> jobs;  // by arrival
};
struct EngineOutcome {
  PolicyOutcome jobs;               // of those not answered by the end the latency is 0
  std::vector<double> own_batch_s;  // of each job: the longest batch with rows of it
  double busy_s = 0;                // of its batches, until the end
};

// Runs them until all jobs are answered, or until `until_s`. An error of a scheduler ends it.
Expected<std::vector<EngineOutcome>> SimulateShared(const std::vector<EngineLoad>& engines,
                                                    double until_s = INFINITY);

}  // namespace penstock::lab
