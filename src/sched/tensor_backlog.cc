#include "sched/tensor_backlog.h"

#include <algorithm>
#include <utility>

#include "sched/tensor_answers.h"

namespace penstock::sched {
namespace {

// Jobs looked at in vain for one batch: the mutex is not held for longer.
constexpr size_t kLooksMax = 4096;
// A job that is cut gives this part of a batch at a time, while others wait.
constexpr uint32_t kParts = 32;
// What rows cost beside each other: only ratios count.
constexpr double kByteS = 1e-9;
constexpr double kRowS = 64 * kByteS;

double Seconds(const TensorJob& job, uint32_t rows) {
  return rows * (kRowS + kByteS * static_cast<double>(job.progress.bytes) / job.rows);
}

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
                             Clock::time_point now, std::vector<TensorPiece>* pieces) {
  if (empty() || rows >= rows_max) return rows;
  const std::lock_guard lock(mutex_);
  const TensorJob* like = nullptr;  // it is not answered before this batch is
  size_t looks_in_vain = kLooksMax;
  for (uint32_t planned = rows; planned < rows_max;) {
    TensorJob* const job = First();
    if (job == nullptr) break;
    const uint32_t room = rows_max - planned;
    const uint32_t open = job->rows - job->progress.next_row - job->progress.take_rows;
    const uint32_t part = jobs() == 1 ? room : std::max(rows_max / kParts, 1u);
    const uint32_t take = job->rows <= whole_max ? open : std::min({open, room, part});
    if (TensorAnswers::IsDead(*job, now) || (take > room && planned > 0) ||
        (like != nullptr && !SameRows(*like, *job))) {
      if (looks_in_vain-- == 0) break;
      SetAside(job);
      continue;
    }
    if (like == nullptr) like = job;
    planned += take;
    Choose(job, take, Seconds(*job, take));
  }
  for (TensorJob* job = EndChoice(); job != nullptr; job = job->progress.chosen) {
    TensorJob::Progress& progress = job->progress;
    pieces->push_back({job, progress.next_row, progress.take_rows, rows});
    progress.next_row += progress.take_rows;
    rows += std::exchange(progress.take_rows, 0);
  }
  return rows;
}

}  // namespace penstock::sched
