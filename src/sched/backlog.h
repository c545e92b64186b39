// Backlog: jobs of one priority class and output that wait to be put into batches: those of many
// rows, and all others while one waits, so that none is overtaken for ever.
//
// Its bound is the scheduler's, which counts all rows and tokens it has taken.
#pragma once

#include "sched/batch_limits.h"
#include "sched/encode_batch.h"
#include "sched/job_line.h"

namespace penstock::sched {

class Backlog : public JobLine<EncodeJob> {
 public:
  // Adds rows to `batch` up to `limits`, one at a time: of the client that had the least, by the
  // time that rows take; and of its jobs by turns. So a client alone, of whose rows any k fit in a
  // batch, and of whose jobs n wait, has a row of each in ceil(n / k) batches that were empty
  // before. A row that does not fit waits for the next batch, and others go instead. In an empty
  // batch the first job gives one row whatever its size; a row that is over the limits stays alone.
  // Jobs that are dead at `now` give none, and wait for Sweep. `on_first(job)` is called for jobs
  // whose first rows go.
  //
  // Returns null; or, where there is no memory for a row that is over the limits, its job,
  // unlinked, and the batch is left empty. The caller answers its rows from next_row on.
  template <typename OnFirst>
  [[nodiscard]] EncodeJob* Fill(EncodeBatch* batch, const BatchLimits& limits,
                                Clock::time_point now, OnFirst on_first) {
    if (empty()) return nullptr;
    const std::lock_guard lock(mutex_);
    EncodeJob* const homeless = ChooseRows(batch, limits, now);
    for (EncodeJob* job = EndChoice(); job != nullptr; job = job->progress.chosen) {
      EncodeJob::Progress& progress = job->progress;
      if (progress.next_row == 0) on_first(*job);
      batch->Append(job, progress.next_row, progress.next_token, progress.take_rows,
                    progress.take_tokens);
      progress.next_row += progress.take_rows;
      progress.next_token += progress.take_tokens;
      progress.take_rows = progress.take_tokens = 0;
    }
    return homeless;
  }

 private:
  static bool TryReserve(EncodeBatch* batch, size_t tokens, size_t rows);
  // Under the mutex.
  EncodeJob* ChooseRows(EncodeBatch* batch, const BatchLimits& limits, Clock::time_point now);
};

}  // namespace penstock::sched
