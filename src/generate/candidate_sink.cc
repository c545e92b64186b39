#include "generate/candidate_sink.h"

namespace penstock {

CandidateSink::CandidateSink(size_t workers, size_t vocabulary, bool sums)
    : sums_(sums), scans_(workers), parts_(workers), blocks_(sums ? LogitBlocks(vocabulary) : 0) {
  Reset();
}

int64_t CandidateSink::HeapBytes(size_t workers, size_t vocabulary, bool sums) {
  const size_t one = sizeof(Scan) + sizeof(LogitPart) + LogitScan::kHeapBytes;
  return static_cast<int64_t>(workers * one +
                              (sums ? LogitBlocks(vocabulary) * sizeof(LogitBlock) : 0));
}

void CandidateSink::Reset() {
  for (Scan& one : scans_) one.scan.Reset(kCandidatesMax, sums_);
}

void CandidateSink::Add(size_t worker, size_t row, std::span<const float> logits, size_t first_id) {
  if (row == 0) scans_[worker].scan.Add(logits, first_id, sums_ ? blocks_.data() : nullptr);
}

Logits CandidateSink::Find(std::span<const float> row) {
  for (size_t worker = 0; worker < scans_.size(); ++worker) {
    parts_[worker] = scans_[worker].scan.Part();
  }
  return {row, parts_, blocks_};
}

}  // namespace penstock
