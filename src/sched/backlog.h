// Backlog: jobs of one priority class and output that wait to be put into batches: those of many
// rows, and all others while one waits, so that none is overtaken for ever.
//
// Its bound is the scheduler's, which counts all rows and tokens it has taken.
#pragma once

#include <mutex>

#include "sched/batch_limits.h"
#include "sched/encode_batch.h"
#include "sched/job_line.h"

namespace penstock {

class Backlog : public JobLine<EncodeJob> {
 public:
  // Adds rows to `batch` up to `limits`, by turns: first one row of every waiting job, as far as
  // they fit, then rows up to an even share of the room, then the remaining rows from the front.
  // Jobs that gave rows and have more go to the end of the line. So while n jobs wait, and any k of
  // their rows fit in a batch, a job gives a row to one of each ceil(n / k) batches that were empty
  // before. In an empty batch the first job gives one row whatever its size; a row that is over the
  // limits stays alone. `on_first(job)` is called for jobs whose first rows go.
  //
  // Returns null; or, where there is no memory for a row that is over the limits, its job,
  // unlinked, and the batch is left empty. The caller answers its rows from next_row on.
  template <typename OnFirst>
  [[nodiscard]] EncodeJob* Fill(EncodeBatch* batch, const BatchLimits& limits, OnFirst on_first) {
    if (empty()) return nullptr;
    const std::lock_guard lock(mutex_);
    Share(*batch, limits);
    if (candidates_ == 0) return nullptr;
    if (batch->rows() == 0 && !TryReserve(batch, head_->progress.take_tokens, limits.rows)) {
      return Unlink(&head_, nullptr);
    }
    Take(batch, [&](const EncodeJob& job) { on_first(job); });
    return nullptr;
  }

 private:
  // All under the mutex.
  static bool TryReserve(EncodeBatch* batch, size_t tokens, size_t rows);
  // Sets take_rows of the jobs that give rows.
  void Share(const EncodeBatch& batch, const BatchLimits& limits);
  template <typename OnFirst>
  void Take(EncodeBatch* batch, OnFirst on_first) {
    EncodeJob** link = &head_;
    EncodeJob* before = nullptr;
    for (size_t left = candidates_; left > 0; --left) {
      EncodeJob* const job = *link;
      EncodeJob::Progress& progress = job->progress;
      if (progress.take_rows > 0) {
        if (progress.next_row == 0) on_first(*job);
        batch->Append(job, progress.next_row, progress.next_token, progress.take_rows,
                      progress.take_tokens);
        progress.next_row += progress.take_rows;
        progress.next_token += progress.take_tokens;
      }
      if (progress.next_row == job->rows()) {
        Unlink(link, before);
      } else if (progress.take_rows > 0) {
        Append(Cut(link, before));
      } else {
        before = job;
        link = &progress.next;
      }
    }
  }

  size_t candidates_ = 0;  // jobs Share has looked at, from the first; guarded by mutex_
};

}  // namespace penstock
