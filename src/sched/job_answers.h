// JobAnswers: failure and end of jobs, and the call of their `done`.
//
// Rows of a job may be in several batches at once, on several threads: each takes its rows off
// Progress::rows_open when they are done, and the thread that takes the last ones off calls `done`.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>

#include "base/status.h"
#include "sched/admission.h"
#include "sched/encode_job.h"
#include "sched/scheduler_metrics.h"
#include "threads/request_context.h"

namespace penstock::sched {

// Points in time a batch passes.
struct BatchTimestamps {
  Clock::time_point sealed, forward, done;
};

inline Admission::Amount AmountOf(const EncodeJob& job) {
  return {static_cast<int64_t>(job.ids.size()), static_cast<int64_t>(job.rows())};
}

// Any thread.
class JobAnswers {
 public:
  // `now`: null: the steady clock. The pointers outlive this.
  JobAnswers(Admission* admission, SchedulerMetrics* metrics,
             std::function<Clock::time_point()> now)
      : admission_(admission), metrics_(metrics), now_(std::move(now)) {}

  static bool IsDead(const EncodeJob& job, Clock::time_point now) {
    return job.progress.failed.load(std::memory_order_relaxed) || job.context.cancelled() ||
           job.context.deadline <= now;
  }
  // Sets the job's status if it is cancelled or expired, and counts `rows`.
  void MarkDead(EncodeJob* job, Clock::time_point now, size_t rows);
  // The first failure counts.
  void Fail(EncodeJob* job, Status status);
  // `rows` of the job are done; the last ones call `done`. `timestamps`: null if no batch ran.
  void FinishRows(EncodeJob* job, uint32_t rows, const BatchTimestamps* timestamps);
  // Counts a job out that was counted in and is not taken.
  void CountOut(const EncodeJob& job) {
    admission_->CountOut(job.context.priority, AmountOf(job), job.progress.discounted);
  }
  // A dead job of a ring counts no more; it is answered when its batch is formed.
  void Discount(EncodeJob* job) {
    admission_->Discount(job->context.priority, AmountOf(*job));
    job->progress.discounted = true;
  }

 private:
  Clock::time_point Now() const { return now_ ? now_() : Clock::now(); }
  void Complete(EncodeJob* job);

  Admission* const admission_;
  SchedulerMetrics* const metrics_;
  const std::function<Clock::time_point()> now_;
  std::mutex failure_mutex_;  // first failures of jobs
};

}  // namespace penstock::sched
