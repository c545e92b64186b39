// EncodeBatch: the arrays of one batch on its way to the model, sequences end to end.
//
//   row       0            1       2                      what a producer that reserved rows 1..2
//   offsets   0            4       6              12      and tokens 4..11 of a ring's slot writes
//   ids       t  t  t  t   t  t    t  t  t  t  t  t
//   owner     job a        job b   job b
//   sink      a's values   b's values, row by row
//
// So the model reads what the submitting thread wrote and writes where the caller will read:
// nothing is copied in between. Two uses:
//   slot of a ring   Put by many threads at once, each in the rows and tokens it reserved; then,
//                    after the ring has handed it over, one executor's until it is completed
//   executor's own   filled from a backlog by Append
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sched/encode_job.h"

namespace penstock::sched {

// Attention's share of a batch's cost: the sum of squared lengths.
inline uint64_t AttentionWork(int32_t length) {
  return static_cast<uint64_t>(length) * static_cast<uint64_t>(length);
}

class EncodeBatch {
 public:
  EncodeBatch() = default;
  EncodeBatch(size_t tokens_max, size_t rows_max) { Reserve(tokens_max, rows_max); }

  // Makes room for these sizes; the contents are lost. Throws std::bad_alloc and leaves the batch
  // as it was.
  void Reserve(size_t tokens_max, size_t rows_max);

  // Writes `rows` sequences of `job`, the first of which begins at `job_token` of its ids, as rows
  // `row`.. and tokens `token`.. of the batch.
  void Put(size_t row, size_t token, EncodeJob* job, size_t job_row, size_t job_token, size_t rows);

  // --- One thread from here on ----------------------------------------------------------------

  // All rows and tokens are Put.
  void Seal(size_t rows, size_t tokens);
  void Clear() { Seal(0, 0); }
  void Append(EncodeJob* job, size_t job_row, size_t job_token, size_t rows, size_t tokens);

  size_t rows() const { return rows_; }
  size_t tokens() const { return tokens_; }
  uint64_t work() const { return work_; }  // AttentionWork of all rows
  EncodeJob* owner(size_t row) const { return owners_[row]; }
  size_t length(size_t row) const { return static_cast<size_t>(offsets_[row + 1] - offsets_[row]); }
  // Calls visit(job, begin, end) for each run of rows of one job.
  template <typename Visit>
  void ForEachSegment(Visit visit) const {
    for (size_t begin = 0, end; begin < rows_; begin = end) {
      for (end = begin + 1; end < rows_ && owners_[end] == owners_[begin];) ++end;
      visit(owners_[begin], begin, end);
    }
  }
  // Removes the rows whose job is_dead(job), and closes the gaps.
  template <typename IsDead>
  void Remove(IsDead is_dead) {
    size_t kept = 0;
    size_t token = 0;
    ForEachSegment([&](EncodeJob* job, size_t begin, size_t end) {
      if (!is_dead(job)) Move(begin, end, &kept, &token);
    });
    Seal(kept, token);
  }

  // Rows [begin, end) for the model. Type ids and pool skips are left out where they are all 0.
  // Valid until the next call.
  program::PackedBatch View(size_t begin, size_t end);
  std::span<float* const> Sinks(size_t begin, size_t end) const {
    return {sinks_.get() + begin, end - begin};
  }

 private:
  // Rows [begin, end) become the rows from *row on, at *token; both move on.
  void Move(size_t begin, size_t end, size_t* row, size_t* token);

  size_t tokens_max_ = 0;
  size_t rows_max_ = 0;
  size_t rows_ = 0;
  size_t tokens_ = 0;
  uint64_t work_ = 0;
  std::unique_ptr<int32_t[]> ids_;        // [tokens_max]
  std::unique_ptr<int32_t[]> type_ids_;   // [tokens_max]; undefined where the owner has none
  std::unique_ptr<int32_t[]> offsets_;    // [rows_max + 1]
  std::unique_ptr<int32_t[]> pool_skip_;  // [rows_max]; undefined where the owner has none
  std::unique_ptr<float*[]> sinks_;       // [rows_max]
  std::unique_ptr<EncodeJob*[]> owners_;  // [rows_max]
  std::vector<int32_t> part_offsets_;     // of a View that does not begin at 0
  std::vector<uint64_t> cache_salts_;     // of a View with some
};

}  // namespace penstock::sched
