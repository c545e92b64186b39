// Work: bounds the work on one text: bytes of memory, steps, and a deadline.
//
// A tokenizer.json comes from strangers and a text from clients; together they must not hold a
// thread or take its memory. Every stage counts the bytes it reads and the steps it tries in a
// Work, which checks from time to time whether the work is still wanted.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/status.h"
#include "threads/request_context.h"

namespace penstock {

// Limit of the bytes that normalizers and pre-tokenizers make of a text of `bytes`.
constexpr size_t kGrowthFactor = 64;
constexpr size_t kGrowthBase = size_t(1) << 20;
constexpr size_t GrowthLimit(size_t bytes) { return kGrowthFactor * bytes + kGrowthBase; }

// One thread, one text (or one load).
class Work {
 public:
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
  // Between two looks at the flag and the clock: some ten microseconds to a millisecond.
  static constexpr int64_t kSlice = 64 << 10;

  Work() = default;
  // `limit` in units of Spend.
  explicit Work(const StopCondition& stop, int64_t limit = kUnlimited)
      : stop_(stop), granted_(std::min(limit, kSlice)), slice_(granted_), left_(limit) {}

  // Counts bytes read or steps taken (below 2^60), some nanoseconds each. False once the work must
  // end; status() says why.
  bool Spend(size_t units) {
    slice_ -= static_cast<int64_t>(units);
    return slice_ >= 0 || Look();
  }
  // Ends the work; always false.
  bool Stop(Status why);
  // OK while the work may go on.
  const Status& status() const { return status_; }

 private:
  bool Look();

  StopCondition stop_;
  int64_t granted_ = kSlice, slice_ = kSlice;  // of the current slice: at first, and left
  int64_t left_ = kUnlimited;                  // the current slice included
  Status status_;
};

}  // namespace penstock
