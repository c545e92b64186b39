// LatencyHistogram: percentiles of a stream of times in bounded memory. One thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace penstock::load {

// Buckets whose bounds rise by 1 %, from 1 us to about 6 hours: a percentile is within 0.5 % of
// the exact one. Times outside count at the ends.
class LatencyHistogram {
 public:
  void Add(double ms);
  void Merge(const LatencyHistogram& other);

  uint64_t count() const { return count_; }
  double max_ms() const { return max_ms_; }
  double mean_ms() const { return count_ == 0 ? 0 : sum_ms_ / static_cast<double>(count_); }
  // The time that `share` (0 to 1) of all do not exceed; 0 if there are none.
  double PercentileMs(double share) const;

 private:
  static constexpr size_t kBuckets = 2400;
  std::array<uint64_t, kBuckets> buckets_{};
  uint64_t count_ = 0;
  double sum_ms_ = 0;
  double max_ms_ = 0;
};

}  // namespace penstock::load
