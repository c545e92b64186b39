#include "sched/backlog.h"

#include <algorithm>

namespace penstock {

void Backlog::Push(EncodeJob* job) {
  const std::lock_guard lock(mutex_);
  job->progress.next = nullptr;
  (tail_ == nullptr ? head_ : tail_->progress.next) = job;
  tail_ = job;
  jobs_.fetch_add(1, std::memory_order_seq_cst);
}

void Backlog::Unlink(EncodeJob** link, EncodeJob* before) {
  EncodeJob* const job = *link;
  *link = job->progress.next;
  if (tail_ == job) tail_ = before;
  jobs_.fetch_sub(1, std::memory_order_seq_cst);
}

void Backlog::Share(const EncodeBatch& batch, const BatchLimits& limits) {
  // A job gives at least one row, or none: no more jobs than rows can be in it.
  const size_t rows_room = limits.rows - std::min<size_t>(limits.rows, batch.rows());
  candidates_ = std::min(jobs_.load(std::memory_order_relaxed), rows_room);
  EncodeJob* job = head_;
  for (size_t i = 0; i < candidates_; ++i, job = job->progress.next) {
    job->progress.take_rows = 0;
    job->progress.take_tokens = 0;
  }
  size_t rows = batch.rows();
  size_t tokens = batch.tokens();
  uint64_t work = batch.work();
  const auto take_one = [&](EncodeJob* from, uint32_t length) {
    ++from->progress.take_rows;
    from->progress.take_tokens += length;
    ++rows;
    tokens += length;
    work += AttentionWork(static_cast<int32_t>(length));
  };
  if (rows == 0 && candidates_ > 0) {
    take_one(head_, static_cast<uint32_t>(head_->lengths[head_->progress.next_row]));
  }
  const auto take_up_to = [&](size_t job_tokens_max) {
    EncodeJob* from = head_;
    for (size_t i = 0; i < candidates_ && rows < limits.rows && tokens < limits.tokens; ++i) {
      const EncodeJob::Progress& progress = from->progress;
      for (size_t row = progress.next_row + progress.take_rows; row < from->rows(); ++row) {
        const auto length = static_cast<uint32_t>(from->lengths[row]);
        if (rows == limits.rows || tokens + length > limits.tokens ||
            work + AttentionWork(static_cast<int32_t>(length)) > limits.work ||
            progress.take_tokens + length > job_tokens_max) {
          break;
        }
        take_one(from, length);
      }
      from = from->progress.next;
    }
  };
  const size_t room = limits.tokens - std::min<size_t>(limits.tokens, batch.tokens());
  take_up_to(room / std::max<size_t>(1, candidates_));
  take_up_to(limits.tokens);
}

}  // namespace penstock
