#include "sched/job_answers.h"

#include <utility>

#include "log/exception_status.h"
#include "log/log.h"
#include "metrics/stages.h"

namespace penstock::sched {

void JobAnswers::MarkDead(EncodeJob* job, Clock::time_point now, size_t rows) {
  Status status =
      job->context.CheckWanted(now, "the request's time ran out while it waited for the model");
  if (status.ok()) return;
  metrics_->CountDropped(status.code(), rows);
  Fail(job, std::move(status));
}

void JobAnswers::Fail(EncodeJob* job, Status status) {
  const std::lock_guard lock(failure_mutex_);
  if (job->progress.failed.load(std::memory_order_relaxed)) return;
  job->progress.status = std::move(status);
  job->progress.failed.store(true, std::memory_order_relaxed);
}

void JobAnswers::FinishRows(EncodeJob* job, uint32_t rows, const BatchTimestamps* timestamps) {
  // The trace first: after the subtraction the job may be gone. If the rows open are these, no
  // other thread has any and they are the last.
  metrics::RequestTrace* const trace = job->context.trace.get();
  const bool last = job->progress.rows_open.load(std::memory_order_acquire) == rows;
  if (trace != nullptr && timestamps != nullptr) {
    trace->Batched(timestamps->sealed, timestamps->forward, timestamps->done, last);
  }
  // acq_rel: the last thread sees what all others wrote to the job.
  if (job->progress.rows_open.fetch_sub(rows, std::memory_order_acq_rel) == rows) Complete(job);
}

void JobAnswers::Complete(EncodeJob* taken) {
  std::unique_ptr<EncodeJob> job(taken);
  if (metrics::RequestTrace* const trace = job->context.trace.get())
    trace->Enter(metrics::Stage::kComplete, Now());
  CountOut(*job);  // first: `done` may submit the next
  const auto done = std::move(job->done);
  Status status = std::move(job->progress.status);
  try {
    done(std::move(job), std::move(status));
  } catch (...) {
    LogException("the callback of a job");
  }
}

}  // namespace penstock::sched
