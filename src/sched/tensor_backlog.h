// TensorBacklog: jobs of one priority class that wait outside the ring: those of many rows or of
// shapes that vary, and all others while one waits, so that none is overtaken for ever.
//
// Its bound is the scheduler's Admission.
#pragma once

#include <cstdint>
#include <vector>

#include "sched/job_line.h"
#include "sched/tensor_job.h"

namespace penstock::sched {

// Rows of a job in a batch.
struct TensorPiece {
  TensorJob* job = nullptr;
  uint32_t first = 0;  // row of the job
  uint32_t rows = 0;
  uint32_t at = 0;  // row of the batch
};

class TensorBacklog : public JobLine<TensorJob> {
 public:
  // Adds rows to a batch that has `rows`, up to `rows_max`, and returns how many it has then: of
  // the job that is next, and of those whose rows have the shape of its rows. The client that had
  // the least, by rows and bytes, is next; its jobs take turns, each for a part of a batch. A job
  // of `whole_max` rows or less goes whole or not at all; to an empty batch also where it has more
  // than `rows_max`. `pieces` has room for one a row.
  // Jobs that are dead at `now` give none, and wait for Sweep.
  uint32_t Take(uint32_t rows, uint32_t rows_max, uint32_t whole_max, Clock::time_point now,
                std::vector<TensorPiece>* pieces);
};

}  // namespace penstock::sched
