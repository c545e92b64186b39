// One simulated server: a real scheduler in its manual mode, on a clock of the simulation, before a
// model that takes the time it is said to (costs.h). Nothing sleeps. One thread.
//
// A batch or step is run at once, and its answers say when they come: while the replica is busy its
// clock is ahead of the simulation's, and what arrives meanwhile waits for the next batch, as it does
// in a server.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "load/latency.h"
#include "plan/costs.h"
#include "plan/workload.h"

namespace penstock::plan {

// What all replicas of a run count together, of requests that arrived from `from_s` on.
struct Answers {
  double from_s = 0;
  uint64_t requests = 0;
  uint64_t refused = 0;                // for the queue was full
  load::LatencyHistogram whole;        // from arrival to answer; of bulk requests: none
  load::LatencyHistogram first_token;  // of text
  load::LatencyHistogram between_tokens;
};

class Replica {
 public:
  virtual ~Replica() = default;
  // kResourceExhausted: its queue is full.
  virtual Status Submit(const Request& request) = 0;
  // Runs a batch from `now_s` on and returns when it ends; `now_s` itself where there is nothing to
  // do.
  virtual double Step(double now_s) = 0;

  int64_t outstanding() const { return outstanding_; }
  // At the end of a batch: its answers have come.
  void EndBatch() {
    outstanding_ -= ended_;
    ended_ = 0;
  }
  double busy_s() const { return busy_s_; }
  bool idle() const { return outstanding_ == 0; }
  // The largest part of the cache's blocks that was held, and sequences that gave theirs up.
  virtual double cache_peak() const { return 0; }
  virtual uint64_t preemptions() const { return 0; }

 protected:
  // As the schedulers' clocks say it. Their beginning is "never" to some counters, so it is later.
  static Clock::time_point Moment(double s) {
    return Clock::time_point(
        std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1.0 + s)));
  }

  int64_t outstanding_ = 0;  // requests
  int64_t ended_ = 0;        // answered by the batch that runs
  double busy_s_ = 0;
};

// `answers` outlives the replica.
std::unique_ptr<Replica> NewEncoderReplica(const EncoderCosts& costs, Answers* answers);

// What a model that generates text is, without weights that matter: one for all replicas of a run,
// which it outlives.
class ChatModel {
 public:
  static Expected<std::unique_ptr<ChatModel>> Make(int32_t context);
  virtual ~ChatModel() = default;
  virtual Expected<std::unique_ptr<Replica>> NewReplica(const DecoderCosts& costs,
                                                        Answers* answers) const = 0;
};

}  // namespace penstock::plan
