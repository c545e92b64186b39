// TensorAnswers: failure and end of tensor jobs, the memory of results that come in pieces, and the
// call of `done`.
//
// Rows of a job may be in several batches at once: each takes its rows off Progress::rows_open when
// they are done, and the thread that takes the last ones off calls `done`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/status.h"
#include "sched/admission.h"
#include "sched/scheduler_metrics.h"
#include "sched/tensor_job.h"
#include "sched/tensor_totals.h"
#include "threads/request_context.h"

namespace penstock::sched {

// Any thread.
class TensorAnswers {
 public:
  // The pointers outlive this.
  TensorAnswers(Admission* admission, TensorMetrics* metrics, TensorTotals* totals)
      : admission_(admission), metrics_(metrics), totals_(totals) {}

  static Admission::Amount AmountOf(const TensorJob& job) {
    return {job.progress.bytes, static_cast<int64_t>(job.rows)};
  }
  static bool IsDead(const TensorJob& job, Clock::time_point now) {
    return job.progress.failed.load(std::memory_order_relaxed) || job.context.cancelled() ||
           job.context.deadline <= now;
  }
  // Sets the job's status if it is cancelled or expired, and counts `rows`.
  void MarkDead(TensorJob* job, Clock::time_point now, size_t rows);
  // The first failure counts.
  void Fail(TensorJob* job, Status status);
  // Where result `index` of the whole job goes, if it comes in pieces: its sink, or memory of its
  // own that the first call takes. Sets the result's shape and bytes. Null: the job has failed, for
  // want of memory, or because other pieces had rows of another shape.
  std::byte* Place(TensorJob* job, size_t index, std::span<const int64_t> shape, size_t bytes);
  // A job that was counted in is not taken: gives back what it holds.
  void Drop(TensorJob* job);
  // `rows` of the job are done. The last ones call `done`. `counted_out`: the job's amount was.
  void FinishRows(TensorJob* job, uint32_t rows, Clock::time_point now, bool counted_out = false);

 private:
  void Complete(TensorJob* job, Clock::time_point now, bool counted_out);

  Admission* const admission_;
  TensorMetrics* const metrics_;
  TensorTotals* const totals_;
  std::mutex mutex_;  // first failures of jobs, and their memory
};

}  // namespace penstock::sched
