// CandidateSink: finds the best tokens, and the sums that log-probabilities need, where the logits
// are made: each worker scans its pieces of the vocabulary while they are in its cache.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "program/step.h"
#include "sample/logit_scan.h"
#include "sample/sampler.h"

namespace penstock {

// Of one logit row. Reset and Find between steps; Add by the workers of a step.
class CandidateSink final : public LogitSink {
 public:
  static_assert(kLogitPieceIds % kLogitBlock == 0);

  // `sums`: Sampler::wants_sums.
  CandidateSink(size_t workers, size_t vocabulary, bool sums);

  static int64_t HeapBytes(size_t workers, size_t vocabulary, bool sums);

  // Before each step.
  void Reset();
  void Add(size_t worker, size_t row, std::span<const float> logits, size_t first_id) override;
  // After it; valid until the next Reset. `row`: the logits as a whole.
  Logits Find(std::span<const float> row);

 private:
  // Apart by 128 bytes: two lines are fetched at a time.
  struct alignas(128) Scan {
    LogitScan scan;
  };

  const bool sums_;
  std::vector<Scan> scans_;  // of each worker
  std::vector<LogitPart> parts_;
  std::vector<LogitBlock> blocks_;
};

}  // namespace penstock
