#include "sched/tensor_backlog.h"

#include <algorithm>

namespace penstock {
namespace {

// Jobs looked at for one batch: the mutex is not held for longer.
constexpr size_t kLooksMax = 4096;

bool SameRows(const TensorJob& a, const TensorJob& b) {
  for (size_t i = 0; i < a.inputs.size(); ++i) {
    const std::vector<int64_t>& x = a.inputs[i].shape;
    const std::vector<int64_t>& y = b.inputs[i].shape;
    if (x.size() != y.size()) return false;
    if (!x.empty() && !std::equal(x.begin() + 1, x.end(), y.begin() + 1)) return false;
  }
  return true;
}

}  // namespace

uint32_t TensorBacklog::Take(uint32_t rows, uint32_t rows_max, uint32_t whole_max,
                             std::vector<TensorPiece>* pieces) {
  if (empty() || rows >= rows_max) return rows;
  const std::lock_guard lock(mutex_);
  if (head_ == nullptr) return rows;
  const TensorJob& like = *head_;
  const size_t waiting = jobs();
  const auto share =
      static_cast<uint32_t>(std::max<size_t>(1, (rows_max - rows + waiting - 1) / waiting));
  for (const uint32_t most : {share, rows_max}) {
    TensorJob** link = &head_;
    TensorJob* before = nullptr;
    for (size_t left = std::min(waiting, kLooksMax); left > 0 && *link != nullptr; --left) {
      if (rows >= rows_max) return rows;
      TensorJob* const job = *link;
      uint32_t& next = job->progress.next_row;
      const uint32_t open = job->rows - next;
      const bool whole = job->rows <= whole_max;
      uint32_t take = std::min({open, rows_max - rows, whole ? open : most});
      if (whole && take < open) take = rows == 0 ? open : 0;
      if (take == 0 || !SameRows(like, *job)) {
        before = job;
        link = &job->progress.next;
        continue;
      }
      pieces->push_back({job, next, take, rows});
      next += take;
      rows += take;
      if (take == open) {
        // `like` may be gone from the line, but it is not answered before this batch is.
        Unlink(link, before);
      } else {
        Append(Cut(link, before));
      }
    }
  }
  return rows;
}

}  // namespace penstock
