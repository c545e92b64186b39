// Admission: how much of a model's work has been taken and not answered, and how much may be.
//
// Bounds are by class: bulk is taken only as long as all that waits stays within kBulkShare of the
// queue, so the rest of it is always there for interactive work. What was taken is counted until it
// is answered, or until somebody notices that it is dead (cancelled, expired): dead work that still
// lies in a ring holds nobody up.
//
// Any thread; no lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "common/cancel.h"
#include "common/status.h"
#include "sched/encode_job.h"
#include "sched/scheduler_metrics.h"

namespace penstock {

class Admission {
 public:
  // Of the queue that bulk may fill: 1 - 1 / kInteractivePart.
  static constexpr int64_t kInteractivePart = 4;
  // A longer wait is not worth promising: the load will have changed.
  static constexpr double kRetryAfterMaxS = 60;

  struct Amount {
    int64_t tokens = 0;
    int64_t rows = 0;
  };

  // `queue_max`: what may wait or be worked on, of all classes; at least 1 each. `metrics` outlives
  // this.
  Admission(const Amount& queue_max, const SchedulerMetrics* metrics);

  const Amount& limit(Priority priority) const { return limits_[static_cast<size_t>(priority)]; }

  // Counts the job in, or refuses it and nothing is left behind:
  //   kPayloadTooLarge    it is over the limit of its class by itself
  //   kResourceExhausted  it would be with what waits; retry_after_s from the rate of Drained
  Status CountIn(const EncodeJob& job);
  // Once for each job that was counted in; rows last, see empty(). Before the job is answered.
  void CountOut(const EncodeJob& job);
  // The job is dead and will be answered later: it counts no more. Its owner alone, once.
  void Discount(EncodeJob* job);

  // A batch is through, while `replicas` work.
  void Drained(const Amount& batch, double seconds, size_t replicas);

  int64_t tokens() const { return tokens_.load(std::memory_order_relaxed); }
  int64_t rows() const { return rows_.load(std::memory_order_seq_cst); }
  // Whether no job is left to be answered. seq_cst: for the Dekker argument of Stop.
  bool empty() const { return rows() == 0 && dead_rows_.load(std::memory_order_seq_cst) == 0; }

 private:
  static Amount Of(const EncodeJob& job) {
    return {static_cast<int64_t>(job.ids.size()), static_cast<int64_t>(job.rows())};
  }
  Status TooLarge(const Amount& wanted, Priority priority) const;
  Status Full(const Amount& wanted, Priority priority) const;
  void Show(Priority priority, const Amount& wanted, int64_t sign);

  const std::array<Amount, kPriorities> limits_;
  const SchedulerMetrics* const metrics_;
  std::atomic<int64_t> tokens_{0};
  std::atomic<int64_t> rows_{0};
  std::atomic<int64_t> dead_rows_{0};    // discounted and not answered
  std::atomic<double> tokens_per_s_{0};  // moving averages; 0: not measured
  std::atomic<double> rows_per_s_{0};
};

}  // namespace penstock
