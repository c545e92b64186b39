// EncoderQueues: the waiting jobs of one encoder, both priority classes, and the limits of batches
// made of them.
//
// Dead jobs (cancelled, expired) are answered when their batch is formed; those of backlogs also by
// sweeps, and those in rings at least leave the bound (Discount).
#pragma once

#include <array>
#include <atomic>

#include "sched/class_queue.h"
#include "sched/job_answers.h"
#include "sched/scheduler_metrics.h"

namespace penstock::sched {

// Any thread; Claim, Fill and Complete are for holders of a runner.
class EncoderQueues {
 public:
  // `bulk_limits` are those of bulk while interactive work is about. `offered`: outputs the model
  // has. The pointers outlive this.
  EncoderQueues(const BatchLimits& limits, const BatchLimits& bulk_limits,
                const std::array<bool, program::kEncoderOutputs>& offered, JobAnswers* answers,
                SchedulerMetrics* metrics, EventCount* work_ready);

  const BatchLimits& limits() const { return limits_; }
  const BatchLimits& bulk_limits() const { return bulk_limits_; }

  // As ClassQueue::Put.
  void Put(EncodeJob* job, uint64_t work, bool little_waits) {
    Of(job->context.priority).Put(job, work, little_waits);
  }
  bool IsBelowShare(const EncodeJob& job) { return Of(job.context.priority).IsBelowShare(job); }
  // seq_cst: for use between PrepareWait and Wait.
  bool HasWork(Priority priority) const { return Of(priority).HasWork(); }
  int64_t EarliestDeadlineNs(Priority priority) const {
    return Of(priority).earliest_deadline_ns();
  }

  // Answers all dead jobs of backlogs, every 20 ms over all callers.
  void SweepSometimes(Clock::time_point now);
  // Discounts dead jobs in rings, as often.
  void DiscountSometimes(Clock::time_point now);

  struct Batch {
    EncodeBatch* rows = nullptr;
    program::EncoderOutput output = program::EncoderOutput::kPooled;
    bool from_ring = false;
    ClassQueue::Claimed claimed;
  };
  // The next batch of the class: the oldest of a ring, or `own`; Fill adds rows to it. False: no
  // work is there.
  bool Claim(Priority priority, Clock::time_point now, EncodeBatch* own, Batch* batch);
  // Fills the batch up from the backlog, to a batch of `seconds` by the times that were measured.
  void Fill(Priority priority, double seconds, Clock::time_point now, Batch* batch);
  // All rows of the batch are answered.
  void Complete(Priority priority, const Batch& batch);
  void ObserveQueued(const EncodeJob& job, Clock::time_point now);

 private:
  ClassQueue& Of(Priority priority) { return classes_[static_cast<size_t>(priority)]; }
  const ClassQueue& Of(Priority priority) const { return classes_[static_cast<size_t>(priority)]; }
  // Dead jobs of a backlog: all, or those older than the first `live_max` that live.
  void SweepBacklog(ClassQueue* queue, int kind, Clock::time_point now, size_t live_max);

  const BatchLimits limits_;
  const BatchLimits bulk_limits_;
  JobAnswers* const answers_;
  SchedulerMetrics* const metrics_;
  std::array<ClassQueue, kPriorities> classes_;
  std::atomic<int64_t> swept_ns_{0};
  std::atomic<int64_t> discounted_ns_{0};
};

}  // namespace penstock::sched
