#include "sched/backlog.h"

#include <algorithm>
#include <new>

namespace penstock {

bool Backlog::TryReserve(EncodeBatch* batch, size_t tokens, size_t rows) {
  try {
    batch->Reserve(tokens, rows);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

namespace {

// A batch being planned.
class Plan {
 public:
  Plan(const EncodeBatch& batch, const BatchLimits& limits)
      : limits_(limits), rows_(batch.rows()), tokens_(batch.tokens()), work_(batch.work()) {}

  bool empty() const { return rows_ == 0; }
  bool full() const { return rows_ >= limits_.rows || tokens_ >= limits_.tokens; }
  bool Fits(uint32_t length) const {
    const uint64_t work = work_ + AttentionWork(static_cast<int32_t>(length));
    return rows_ < limits_.rows && tokens_ + length <= limits_.tokens && work <= limits_.work &&
           limits_.SecondsFit(tokens_ + length, work);
  }
  // Adds the next row of the job.
  void Take(EncodeJob* job) {
    EncodeJob::Progress& progress = job->progress;
    const int32_t length = job->lengths[progress.next_row + progress.take_rows];
    ++progress.take_rows;
    progress.take_tokens += static_cast<uint32_t>(length);
    ++rows_;
    tokens_ += static_cast<uint32_t>(length);
    work_ += AttentionWork(length);
  }
  // Adds rows of the job while they fit, up to these totals.
  void TakeUpTo(EncodeJob* job, size_t job_rows_max, size_t job_tokens_max) {
    const EncodeJob::Progress& progress = job->progress;
    while (progress.take_rows < job_rows_max &&
           progress.next_row + progress.take_rows < job->rows()) {
      const auto length =
          static_cast<uint32_t>(job->lengths[progress.next_row + progress.take_rows]);
      if (progress.take_tokens + length > job_tokens_max || !Fits(length)) return;
      Take(job);
    }
  }

 private:
  const BatchLimits& limits_;
  size_t rows_;
  size_t tokens_;
  uint64_t work_;
};

}  // namespace

void Backlog::Share(const EncodeBatch& batch, const BatchLimits& limits) {
  // A job gives at least one row, or none: no more jobs than rows can be in it.
  const size_t rows_room = limits.rows - std::min<size_t>(limits.rows, batch.rows());
  const size_t tokens_room = limits.tokens - std::min<size_t>(limits.tokens, batch.tokens());
  candidates_ = std::min(jobs(), rows_room);
  if (candidates_ == 0) return;
  EncodeJob* job = head_;
  for (size_t i = 0; i < candidates_; ++i, job = job->progress.next) {
    job->progress.take_rows = 0;
    job->progress.take_tokens = 0;
  }
  Plan plan(batch, limits);
  if (plan.empty()) plan.Take(head_);
  const auto take_up_to = [&](size_t job_rows_max, size_t job_tokens_max) {
    EncodeJob* from = head_;
    for (size_t i = 0; i < candidates_ && !plan.full(); ++i, from = from->progress.next) {
      plan.TakeUpTo(from, job_rows_max, job_tokens_max);
    }
  };
  take_up_to(1, SIZE_MAX);
  take_up_to(rows_room / candidates_, tokens_room / candidates_);
  take_up_to(SIZE_MAX, SIZE_MAX);
}

}  // namespace penstock
