// What follows the logits of picked rows: their scale and cap, the sums of their exponentials, and
// the best of them, as sample::LogitScan finds them on the host.
#pragma once

#include "cuda/kernels.h"
#include "cuda/simt.h"

namespace penstock::cuda {

inline constexpr float kLogitLargest = 1e30F;  // sample::kLogitMax
inline constexpr int kNoBadId = 0x7FFFFFFF;

// A logit and its id as one number: the larger logit is larger, of equal ones the lower id.
SIMT_FN uint64_t RankOf(float logit, int id) {
  const uint32_t bits = simt::BitsOf(logit + 0.0F);  // -0 equals 0
  const uint32_t order = bits >> 31 != 0 ? ~bits : bits | 0x80000000;
  return static_cast<uint64_t>(order) << 32 | static_cast<uint32_t>(~id);
}
SIMT_FN int IdOf(uint64_t rank) { return static_cast<int>(~static_cast<uint32_t>(rank)); }
SIMT_FN float LogitOf(uint64_t rank) {
  const auto order = static_cast<uint32_t>(rank >> 32);
  return simt::FloatOf(order >> 31 != 0 ? order & 0x7FFFFFFF : ~order);
}

SIMT_FN BestLogits* BestOf(const LogitsArgs& a, int pick) {
  return reinterpret_cast<BestLogits*>(a.found + static_cast<int64_t>(pick) * a.found_bytes);
}
SIMT_FN LogitSums* SumsOf(const LogitsArgs& a, int pick) {
  return reinterpret_cast<LogitSums*>(BestOf(a, pick) + 1);
}

SIMT_FN int WarpLowest(int value) {
  for (int mask = 16; mask > 0; mask /= 2) {
    const int other = simt::ShuffleXor(value, mask);
    value = other < value ? other : value;
  }
  return value;
}

// A warp 256 neighbouring logits. Grid: blocks of logits, picks.
struct LogitsScan {
  static constexpr int kTileRows = 4, kTileFeatures = 0;
  static constexpr int kThreads = 32 * kTileRows;
  static constexpr int kSharedBytes = 0;
  static constexpr int kOfLane = kLogitsOfBlock / 32;

  static SIMT_FN void Run(const LogitsArgs& a) {
    simt::LaunchDependents();
    simt::WaitForPrerequisites();
    const int block = simt::BlockX() * kTileRows + simt::WarpIndex(), pick = simt::BlockY();
    if (pick >= *a.picks || block >= a.blocks) return;
    float* const row = a.logits + static_cast<int64_t>(pick) * a.vocabulary;
    const float none = simt::FloatOf(0xFF800000);
    float values[kOfLane], most = none;
    int bad_id = kNoBadId;
    SIMT_UNROLL
    for (int i = 0; i < kOfLane; ++i) {
      const int id = block * kLogitsOfBlock + i * 32 + simt::Lane();
      values[i] = none;
      if (id >= a.vocabulary) continue;
      float value = row[id] * a.scale;
      if (a.soft_cap != 0) value = a.soft_cap * simt::Tanh(simt::Divide(value, a.soft_cap));
      row[id] = value;
      values[i] = value;
      const bool good = value <= kLogitLargest && value >= -kLogitLargest;
      if (!good && id < bad_id) bad_id = id;
      most = simt::Max(most, value);
    }
    if (a.wants[pick] == 0) return;
    most = simt::WarpMax(most);
    float sum = 0;
    SIMT_UNROLL
    for (int i = 0; i < kOfLane; ++i) {
      const float apart = values[i] - most;
      if (apart > -87.0F) sum += simt::Exp(apart);
    }
    sum = simt::WarpSum(sum);
    bad_id = WarpLowest(bad_id);
    if (simt::Lane() != 0) return;
    SumsOf(a, pick)[block] = {most, sum};
    a.bad_ids[static_cast<int64_t>(pick) * a.blocks + block] = bad_id;
  }
};

// The 64 best of a pick, a block each, and the token that is drawn of them.
//
// They lie in the 64 blocks of logits with the largest maxima: whatever is in another block has 64
// maxima before it. Their logits that reach the
// 64th maximum are gathered, and sorted.
struct LogitsBest {
  static constexpr int kThreads = 256;
  static constexpr int kRanks = kLogitBlocksMax;
  static constexpr int kWarps = kThreads / 32;
  static constexpr int kSharedBytes = kRanks * 8 + (kBestLogits + 1 + kWarps) * 4;

  // Sorts ranks[0, count) by the whole block of threads, the largest first (bitonic, Batcher 1968).
  // Those up to the next power of two are overwritten by zeros, the smallest ranks.
  static SIMT_FN void Sort(uint64_t* ranks, int count) {
    int size = 2;
    while (size < count) size *= 2;
    for (int i = count + simt::ThreadX(); i < size; i += kThreads) ranks[i] = 0;
    simt::Sync();
    for (int run = 2; run <= size; run *= 2) {
      for (int apart = run / 2; apart > 0; apart /= 2) {
        for (int i = simt::ThreadX(); i < size / 2; i += kThreads) {
          const int first = i / apart * 2 * apart + i % apart, second = first + apart;
          const bool falls = (first & run) == 0;
          const uint64_t one = ranks[first], other = ranks[second];
          if ((one < other) == falls) {
            ranks[first] = other;
            ranks[second] = one;
          }
        }
        simt::Sync();
      }
    }
  }

  static SIMT_FN void Run(const LogitsArgs& a) {
    simt::LaunchDependents();
    simt::WaitForPrerequisites();
    const int pick = simt::BlockX(), thread = simt::ThreadX();
    if (pick >= *a.picks || a.wants[pick] == 0) return;
    auto* const ranks = simt::Shared<uint64_t>();
    int* const blocks = reinterpret_cast<int*>(ranks + kRanks);
    int* const count = blocks + kBestLogits;
    int* const bad_ids = count + 1;  // [kWarps]
    const LogitSums* const sums = SumsOf(a, pick);
    const int* const bad_ids_of_pick = a.bad_ids + static_cast<int64_t>(pick) * a.blocks;
    const float* const row = a.logits + static_cast<int64_t>(pick) * a.vocabulary;
    int lowest = kNoBadId;
    for (int i = thread; i < a.blocks; i += kThreads) {
      ranks[i] = RankOf(sums[i].max, i);
      const int bad_id = bad_ids_of_pick[i];
      lowest = bad_id < lowest ? bad_id : lowest;
    }
    lowest = WarpLowest(lowest);
    const int warp = simt::WarpIndex();
    if (simt::Lane() == 0) bad_ids[warp] = lowest;
    if (thread == 0) *count = 0;
    simt::Sync();
    const int read = a.blocks < kBestLogits ? a.blocks : kBestLogits;
    Sort(ranks, a.blocks);
    if (thread < read) blocks[thread] = IdOf(ranks[thread]);
    // Ranks below it are not among the best: those of the largest id with the least maximum are.
    float least = a.blocks < kBestLogits ? simt::FloatOf(0xFF800000) : LogitOf(ranks[read - 1]);
    simt::Sync();
    for (int i = 0; i < read; ++i) {
      const int id = blocks[i] * kLogitsOfBlock + thread;
      if (id < a.vocabulary && row[id] >= least)
        ranks[simt::AtomicAdd(count, 1)] = RankOf(row[id], id);
      simt::Sync();
      const int gathered = *count;
      simt::Sync();  // read before it changes
      if (gathered + kLogitsOfBlock <= kRanks) continue;
      Sort(ranks, gathered);
      least = LogitOf(ranks[kBestLogits - 1]);
      if (thread == 0) *count = kBestLogits;
      simt::Sync();
    }
    const int gathered = *count;
    Sort(ranks, gathered);
    BestLogits* const best = BestOf(a, pick);
    if (thread < kBestLogits) {
      const bool is = thread < gathered;
      best->best[thread] = {is ? LogitOf(ranks[thread]) : 0.0F, is ? IdOf(ranks[thread]) : -1};
    }
    if (thread != 0) return;
    for (int i = 0; i < kWarps; ++i) lowest = bad_ids[i] < lowest ? bad_ids[i] : lowest;
    best->bad_id = lowest == kNoBadId ? -1 : lowest;
    // Behind the best ranks are none that are needed any more.
    best->drawn = Draw(a.draws[pick], ranks, gathered < kBestLogits ? gathered : kBestLogits,
                       reinterpret_cast<double*>(ranks + kBestLogits));
    a.drawn[pick] = best->drawn;
  }

  // Draws from the best ranks. Where no logit is a number any token will do: the step is an error.
  static SIMT_FN int Draw(const sample::DrawRule& rule, const uint64_t* ranks, int count,
                          double* weights) {
    if (rule.keep == 0) return -1;
    if (count == 0) return 0;
    return IdOf(ranks[sample::DrawBest(rule, rule.keep < count ? rule.keep : count, weights,
                                       [&](int i) { return LogitOf(ranks[i]); })]);
  }
};

}  // namespace penstock::cuda
