// Admission: counts a model's work that is taken and not answered, bounds it, and refuses more.
//
// Bounds are by class: bulk is taken only while all waiting work stays within its part of the queue
// (kInteractivePart), so the rest is always left for interactive work. Work counts until it is
// answered, or until it is found dead (cancelled, expired): dead work that still lies in a ring
// keeps no other out.
//
// Stopping: CountIn counts before it reads `stopping_`; Stop sets it before the executors read the
// count. So an executor that sees `stopping` and `empty` may end: later jobs are refused.
//
// Any thread; no lock.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/status.h"
#include "sched/scheduler_metrics.h"
#include "threads/event_count.h"
#include "threads/request_context.h"

namespace penstock::sched {

// How errors call units and rows, and the flags of their limits.
struct AdmissionWords {
  const char* units = "tokens";
  const char* rows = "sequences";
  const char* flags = "--max-queued-tokens, --max-queued-rows";
};

class Admission {
 public:
  // Bulk may fill this part of the queue: 1 - 1 / kInteractivePart.
  static constexpr int64_t kInteractivePart = 4;
  // Largest retry_after_s: later the load will have changed.
  static constexpr double kRetryAfterMaxS = 60;

  struct Amount {
    int64_t units = 0;  // tokens of texts, bytes of tensors
    int64_t rows = 0;
    double seconds = 0;  // of the processor; 0: as SetCosts says
  };
  // `queue_max`: work that may wait or run, of all classes; at least 1 each. `drained` is notified
  // when the last work of a stopping model may be gone. Both pointers outlive this.
  Admission(const Amount& queue_max, const QueueMetrics* metrics, EventCount* drained,
            const AdmissionWords& words = {});

  const Amount& limit(Priority priority) const { return limits_[static_cast<size_t>(priority)]; }

  // How long work takes: `unit_s` a unit, and `square_s` times the square of a row's units. Before
  // the first job. Without it and without `seconds` in its Amount work is not in
  // penstock_queue_seconds.
  void SetCosts(double unit_s, double square_s);
  // Counts a job into what was asked for, taken or refused; once each.
  void Ask(Priority priority, const Amount& wanted);

  // Counts a job of `wanted` in, or refuses it without effect:
  //   kPayloadTooLarge    it is over the limit of its class by itself
  //   kResourceExhausted  it would be, with waiting work; retry_after_s from the rate of Drained
  //   kUnavailable        Stop was called
  // `below_share`: of a client that has less waiting than others; it may go over the limit by an
  // eighth, which those cannot take from it.
  Status CountIn(Priority priority, const Amount& wanted, bool below_share = false);
  // Once for each job that was counted in, before it is answered, or for several together; rows
  // last, see empty(). `discounted`: after Discount.
  void CountOut(Priority priority, const Amount& counted, bool discounted);
  // Stops counting a dead job that is answered later. Called once, by the job's owner.
  void Discount(Priority priority, const Amount& counted);

  // A batch is done; `replicas` work at once.
  void Drained(const Amount& batch, double seconds, size_t replicas);

  void Stop();
  bool stopping() const { return stopping_.load(std::memory_order_seq_cst); }

  int64_t units() const { return units_.load(std::memory_order_relaxed); }
  int64_t rows() const { return rows_.load(std::memory_order_seq_cst); }
  // Whether no job is left to be answered.
  bool empty() const { return rows() == 0 && dead_rows_.load(std::memory_order_seq_cst) == 0; }

 private:
  Status TooLarge(const Amount& wanted, Priority priority) const;
  Status Full(const Amount& wanted, Priority priority) const;
  Status Add(Priority priority, const Amount& wanted, bool below_share);
  void Remove(Priority priority, const Amount& counted);
  void Show(Priority priority, const Amount& wanted, int64_t sign);
  // 0: not known.
  double SecondsOf(const Amount& amount) const;

  const std::array<Amount, kPriorities> limits_;
  const AdmissionWords words_;
  const QueueMetrics* const metrics_;
  EventCount* const drained_;
  std::atomic<int64_t> units_{0};
  std::atomic<int64_t> rows_{0};
  std::atomic<int64_t> dead_rows_{0};   // discounted and not answered
  std::atomic<double> units_per_s_{0};  // moving averages; 0: not measured
  std::atomic<double> rows_per_s_{0};
  std::atomic<bool> stopping_{false};
  double unit_s_ = 0;
  double square_s_ = 0;
};

}  // namespace penstock::sched
