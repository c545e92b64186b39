#include "metrics/duration_histogram.h"

#include <algorithm>
#include <cmath>

namespace penstock::metrics {

double DurationSnapshot::mean_ns() const {
  return count_ == 0 ? 0 : static_cast<double>(sum_ns_) / static_cast<double>(count_);
}

double DurationSnapshot::percentile_ns(double fraction) const {
  const auto rank = static_cast<uint64_t>(std::ceil(fraction * static_cast<double>(count_)));
  const uint64_t wanted = std::clamp<uint64_t>(rank, 1, std::max<uint64_t>(count_, 1));
  uint64_t seen = 0;
  for (size_t b = 0; b < counts_.size(); ++b) {
    seen += counts_[b];
    if (seen >= wanted) return DurationHistogram::MiddleOf(b);
  }
  return 0;
}

uint64_t DurationSnapshot::CountBelowPowerOfTwo(int log2_ns) const {
  // A power of two is the lower edge of a bucket.
  const size_t end = log2_ns >= DurationHistogram::kValueBits
                         ? counts_.size()
                         : DurationHistogram::BucketOf(int64_t{1} << log2_ns);
  uint64_t below = 0;
  for (size_t b = 0; b < std::min(end, counts_.size()); ++b) below += counts_[b];
  return below;
}

DurationSnapshot DurationSnapshot::Since(const DurationSnapshot& earlier) const {
  DurationSnapshot window = *this;
  for (size_t b = 0; b < std::min(counts_.size(), earlier.counts_.size()); ++b) {
    window.counts_[b] -= earlier.counts_[b];
  }
  window.count_ -= earlier.count_;
  window.sum_ns_ -= earlier.sum_ns_;
  return window;
}

DurationHistogram::~DurationHistogram() {
  for (auto& shard : shards_) delete shard.load(std::memory_order_relaxed);
}

DurationHistogram::Shard* DurationHistogram::MakeShard(size_t slot) {
  auto* made = new Shard;
  Shard* there = nullptr;
  // Release: a reader that sees the shard sees its zeros. Only the shared slot can be contended.
  if (shards_[slot].compare_exchange_strong(there, made, std::memory_order_acq_rel)) return made;
  delete made;
  return there;
}

DurationSnapshot DurationHistogram::Snapshot() const {
  DurationSnapshot snapshot;
  snapshot.counts_.resize(kBuckets);
  for (const auto& slot : shards_) {
    const Shard* shard = slot.load(std::memory_order_acquire);
    if (shard == nullptr) continue;
    for (size_t b = 0; b < kBuckets; ++b) {
      const uint64_t count = shard->counts[b].load(std::memory_order_relaxed);
      snapshot.counts_[b] += count;
      snapshot.count_ += count;
    }
    snapshot.sum_ns_ += shard->sum_ns.load(std::memory_order_relaxed);
  }
  return snapshot;
}

uint64_t DurationHistogram::sum_ns() const {
  uint64_t sum = 0;
  for (const auto& slot : shards_) {
    const Shard* shard = slot.load(std::memory_order_acquire);
    if (shard != nullptr) sum += shard->sum_ns.load(std::memory_order_relaxed);
  }
  return sum;
}

double DurationHistogram::MiddleOf(size_t bucket) {
  constexpr size_t kSubBuckets = size_t{1} << kSubBucketBits;
  if (bucket < 2 * kSubBuckets) return static_cast<double>(bucket);
  const size_t shift = bucket / kSubBuckets - 1;
  const double lower = std::ldexp(static_cast<double>(bucket % kSubBuckets + kSubBuckets), shift);
  return lower + (std::ldexp(1.0, shift) - 1) / 2;
}

}  // namespace penstock::metrics
