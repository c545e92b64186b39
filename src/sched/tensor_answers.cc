#include "sched/tensor_answers.h"

#include <algorithm>
#include <ranges>
#include <utility>

#include "log/exception_status.h"
#include "metrics/stages.h"
#include "threads/byte_budget.h"

namespace penstock::sched {

void TensorAnswers::MarkDead(TensorJob* job, Clock::time_point now, size_t rows) {
  Status status =
      job->context.CheckWanted(now, "the request's time ran out while it waited for the model");
  if (status.ok()) return;
  metrics_->CountDropped(status.code(), rows);
  Fail(job, std::move(status));
}

void TensorAnswers::Fail(TensorJob* job, Status status) {
  const std::lock_guard lock(mutex_);
  if (job->progress.failed.load(std::memory_order_relaxed)) return;
  job->progress.status = std::move(status);
  job->progress.failed.store(true, std::memory_order_relaxed);
}

std::byte* TensorAnswers::Place(TensorJob* job, size_t index, std::span<const int64_t> shape,
                                size_t bytes) {
  Status status;
  try {
    const std::lock_guard lock(mutex_);
    TensorResult& result = job->results[index];
    TensorJob::Progress& progress = job->progress;
    if (progress.placed.empty()) progress.placed.resize(job->results.size());
    std::byte*& place = progress.placed[index];
    if (place != nullptr) {
      if (std::ranges::equal(result.shape, shape)) return place;
      status = MakeStatus(StatusCode::kUnprocessable,
                          "the rows of the request came to results of different shapes; send fewer "
                          "rows at once");
    } else if (!result.sink.empty() && bytes > result.sink.size()) {
      status = MakeStatus(StatusCode::kInvalidArgument,
                          "the memory that was given for a result has no room for it");
    } else {
      result.shape.assign(shape.begin(), shape.end());
      if (!result.sink.empty()) {
        place = result.sink.data();
      } else {
        if (RequestMemory* const memory = job->context.memory.get()) {
          status = memory->Take(static_cast<int64_t>(bytes));
        }
        if (status.ok()) {
          progress.kept_bytes += static_cast<int64_t>(bytes);
          place = progress.kept.emplace_back(new std::byte[std::max<size_t>(bytes, 1)]).get();
        }
      }
      result.bytes = {place, place == nullptr ? 0 : bytes};
      if (place != nullptr) return place;
    }
  } catch (...) {
    status = ExceptionStatus();
  }
  Fail(job, std::move(status));
  return nullptr;
}

void TensorAnswers::Drop(TensorJob* job) {
  TensorJob::Progress& progress = job->progress;
  admission_->CountOut(job->context.priority, AmountOf(*job), false);
  if (job->context.memory != nullptr) job->context.memory->Give(progress.kept_bytes);
  progress.kept_bytes = 0;
  progress.kept.clear();
  progress.placed.clear();
}

void TensorAnswers::FinishRows(TensorJob* job, uint32_t rows, Clock::time_point now,
                               bool counted_out) {
  // A job that is whole in a batch is no other thread's.
  if (rows == job->rows) return Complete(job, now, counted_out);
  // acq_rel: the last thread sees what all others wrote to the job.
  if (job->progress.rows_open.fetch_sub(rows, std::memory_order_acq_rel) == rows) {
    Complete(job, now, counted_out);
  }
}

void TensorAnswers::Complete(TensorJob* job, Clock::time_point now, bool counted_out) {
  TensorJob::Progress& progress = job->progress;
  // First: `done` may submit the next.
  if (!counted_out) admission_->CountOut(job->context.priority, AmountOf(*job), false);
  Status status = std::move(progress.status);
  progress.status = Status::Ok();
  totals_->Answered(status.ok(), now - progress.submitted);
  if (progress.placed.empty()) return job->done(job, std::move(status));
  progress.placed.clear();
  const auto kept = std::exchange(progress.kept, {});
  const int64_t kept_bytes = std::exchange(progress.kept_bytes, 0);
  const auto memory = job->context.memory;  // after `done` the job may be gone
  job->done(job, std::move(status));
  if (memory != nullptr) memory->Give(kept_bytes);
}

}  // namespace penstock::sched
