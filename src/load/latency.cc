#include "load/latency.h"

#include <algorithm>
#include <cmath>

namespace penstock::load {
namespace {

constexpr double kFirstMs = 0.001;
const double kLogStep = std::log(1.01);

}  // namespace

void LatencyHistogram::Add(double ms) {
  const double at = std::log(std::max(ms, kFirstMs) / kFirstMs) / kLogStep;
  ++buckets_[std::min(static_cast<size_t>(at), kBuckets - 1)];
  ++count_;
  sum_ms_ += ms;
  max_ms_ = std::max(max_ms_, ms);
}

void LatencyHistogram::Merge(const LatencyHistogram& other) {
  for (size_t i = 0; i < kBuckets; ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  sum_ms_ += other.sum_ms_;
  max_ms_ = std::max(max_ms_, other.max_ms_);
}

double LatencyHistogram::PercentileMs(double share) const {
  if (count_ == 0) return 0;
  const auto rank =
      std::max<uint64_t>(1, static_cast<uint64_t>(std::ceil(share * static_cast<double>(count_))));
  if (rank >= count_) return max_ms_;
  uint64_t seen = 0;
  for (size_t i = 0; i < kBuckets; ++i) {
    seen += buckets_[i];
    if (seen < rank) continue;
    return std::min(max_ms_, kFirstMs * std::exp((static_cast<double>(i) + 0.5) * kLogStep));
  }
  return max_ms_;
}

}  // namespace penstock::load
