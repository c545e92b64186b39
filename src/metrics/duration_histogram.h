// DurationHistogram: durations with percentiles that are right within 2 %, recorded without locks
// and without threads meeting.
//
// Buckets are log-linear, as in HdrHistogram: each power of two is cut into 32 equal parts, so a
// bucket is at most 1/32 of its lower edge wide, and its middle is at most 1/64 (1.6 %) off any
// value in it. Below 64 ns each value has its own bucket. Values from 2^40 ns (18 minutes) on are
// counted as that.
//
// Each thread has a shard of its own (thread_slot.h), which only it writes, with plain relaxed
// stores: a record is a handful of instructions. Threads beyond the slots share one shard, with
// atomic adds. Readers add the shards up. Counts only grow; a window is the difference of two
// snapshots, so a new window loses no record made meanwhile.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <vector>

#include "metrics/thread_slot.h"

namespace penstock::metrics {

// Counts at one moment. A value.
class DurationSnapshot {
 public:
  uint64_t count() const { return count_; }
  double total_s() const { return static_cast<double>(sum_ns_) / 1e9; }
  // Nanoseconds, as the others; 0 when nothing was recorded.
  double mean_ns() const;
  // The value that `fraction` of the records do not exceed, 0 < fraction <= 1, by nearest rank.
  double percentile_ns(double fraction) const;
  double max_ns() const { return percentile_ns(1); }
  // Records of less than 2^log2_ns nanoseconds; exact.
  uint64_t CountBelowPowerOfTwo(int log2_ns) const;

  // The records since `earlier`, a snapshot of the same histogram.
  DurationSnapshot Since(const DurationSnapshot& earlier) const;

 private:
  friend class DurationHistogram;
  std::vector<uint64_t> counts_;  // empty, or one a bucket
  uint64_t count_ = 0;
  uint64_t sum_ns_ = 0;
};

class DurationHistogram {
 public:
  static constexpr int kSubBucketBits = 5;
  static constexpr int kValueBits = 40;
  static constexpr int64_t kValueNsMax = (int64_t{1} << kValueBits) - 1;
  static constexpr size_t kBuckets = (kValueBits - kSubBucketBits + 1) << kSubBucketBits;

  DurationHistogram() = default;
  ~DurationHistogram();
  DurationHistogram(const DurationHistogram&) = delete;
  DurationHistogram& operator=(const DurationHistogram&) = delete;

  // Any thread. Negative counts as 0. The first record of a thread allocates its shard (9 KiB).
  void Record(int64_t ns) {
    if (ns < 0) ns = 0;
    if (ns > kValueNsMax) ns = kValueNsMax;
    const size_t slot = ThreadSlot();
    Shard* shard = shards_[slot].load(std::memory_order_acquire);
    if (shard == nullptr) shard = MakeShard(slot);
    std::atomic<uint64_t>& count = shard->counts[BucketOf(ns)];
    if (slot < kThreadSlots) {  // no other thread writes here
      count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      shard->sum_ns.store(shard->sum_ns.load(std::memory_order_relaxed) + ns,
                          std::memory_order_relaxed);
    } else {
      count.fetch_add(1, std::memory_order_relaxed);
      shard->sum_ns.fetch_add(ns, std::memory_order_relaxed);
    }
  }

  // All records so far. Those made meanwhile may be in it or not; a count may be in it before its
  // nanoseconds are in the sum.
  DurationSnapshot Snapshot() const;
  // The sum of a snapshot alone; cheap.
  uint64_t sum_ns() const;

  static size_t BucketOf(int64_t ns) {
    const auto v = static_cast<uint64_t>(ns);
    if (v < (1 << kSubBucketBits)) return v;
    const int shift = std::bit_width(v) - 1 - kSubBucketBits;
    // v >> shift is 32 to 63: bucket 32 of row `shift` follows bucket 63 of the row before.
    return (static_cast<size_t>(shift) << kSubBucketBits) + (v >> shift);
  }
  // The middle of the values that BucketOf puts there.
  static double MiddleOf(size_t bucket);

 private:
  struct Shard {
    std::array<std::atomic<uint64_t>, kBuckets> counts{};
    std::atomic<uint64_t> sum_ns{0};
  };
  Shard* MakeShard(size_t slot);

  std::array<std::atomic<Shard*>, kThreadSlots + 1> shards_{};
};

}  // namespace penstock::metrics
