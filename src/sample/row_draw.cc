#include "sample/row_draw.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "sample/exp_neg.h"

namespace penstock {
namespace {

// Bins of 1 + distance: 128 for each power of two below 128, and one for what is farther, whose
// weights are 0. Rounding keeps order, so that a token in an earlier bin is never behind one in a
// later bin.
constexpr uint32_t kMantissaBits = 7;
constexpr size_t kBins = (7u << kMantissaBits) + 1;

uint32_t BinOf(float distance) {
  constexpr uint32_t kShift = 23 - kMantissaBits;
  constexpr uint32_t kFirst = std::bit_cast<uint32_t>(1.0f) >> kShift;
  constexpr uint32_t kFarthest = std::bit_cast<uint32_t>(127.0f);
  const auto bits = std::bit_cast<uint32_t>(distance);  // ordered as the distances are
  const auto bounded = std::bit_cast<float>(bits < kFarthest ? bits : kFarthest);
  return (std::bit_cast<uint32_t>(1.0f + bounded) >> kShift) - kFirst;
}

size_t BlockCount(size_t size, size_t block) {
  return std::min(kLogitBlock, size - block * kLogitBlock);
}

bool Kept(float logit, int32_t id, const Candidate& last) {
  return (logit > last.logit) | ((logit == last.logit) & (id <= last.id));
}

}  // namespace

void RowDraw::Reserve(size_t vocabulary, const RowFilter& filter) {
  block_sums_.resize(LogitBlocks(vocabulary));
  if (filter.top_k == 0 && filter.top_p >= 1) return;
  bins_.resize(kBins);
  sorted_.reserve(vocabulary);
}

float RowDraw::Weight(float logit) const { return ExpNeg(Distance(logit)); }

void RowDraw::FillBins(std::span<const float> row) {
  std::fill(bins_.begin(), bins_.end(), Bin{});
  // In two loops: the first becomes vector code.
  uint32_t bin[kLogitBlock];
  float weight[kLogitBlock];
  for (size_t begin = 0; begin < row.size(); begin += kLogitBlock) {
    const size_t count = std::min(kLogitBlock, row.size() - begin);
    const float* const logits = row.data() + begin;
    for (size_t i = 0; i < count; ++i) {
      const float distance = Distance(logits[i]);
      bin[i] = BinOf(distance);
      weight[i] = ExpNeg(distance);
    }
    for (size_t i = 0; i < count; ++i) {
      bins_[bin[i]].sum += static_cast<double>(weight[i]);
      ++bins_[bin[i]].count;
    }
  }
}

std::span<const Candidate> RowDraw::SortedBin(std::span<const float> row,
                                              std::span<const LogitBlock> blocks, size_t bin) {
  sorted_.clear();
  for (size_t b = 0; b < blocks.size(); ++b) {
    if (BinOf(Distance(blocks[b].max)) > bin) continue;
    const size_t begin = b * kLogitBlock;
    for (size_t i = begin; i < begin + BlockCount(row.size(), b); ++i) {
      if (BinOf(Distance(row[i])) == bin) sorted_.push_back({row[i], static_cast<int32_t>(i)});
    }
  }
  std::sort(sorted_.begin(), sorted_.end(), Before);
  return sorted_;
}

Candidate RowDraw::LastKept(std::span<const float> row, std::span<const LogitBlock> blocks,
                            const RowFilter& filter) {
  constexpr Candidate kAll{-std::numeric_limits<float>::infinity(), 0};
  const bool by_k = filter.top_k > 0 && filter.top_k < row.size();
  if (!by_k && filter.top_p >= 1) return kAll;
  FillBins(row);

  // Top-k: `k_bin` and how many of it are kept; `total`: the weight of all that are.
  size_t k_bin = kBins - 1;
  size_t of_k_bin = row.size();
  double total = 0;
  Candidate last = kAll;
  if (by_k) {
    size_t left = filter.top_k;
    for (k_bin = 0; bins_[k_bin].count < left; ++k_bin) {
      left -= bins_[k_bin].count;
      total += bins_[k_bin].sum;
    }
    of_k_bin = left;
    const std::span<const Candidate> sorted = SortedBin(row, blocks, k_bin).first(of_k_bin);
    for (const Candidate& c : sorted) total += static_cast<double>(Weight(c.logit));
    last = sorted.back();
  } else {
    for (const Bin& bin : bins_) total += bin.sum;
  }
  if (filter.top_p >= 1) return last;

  const double target = static_cast<double>(filter.top_p) * total;
  double before = 0;
  for (size_t bin = 0; bin <= k_bin; ++bin) {
    if (bins_[bin].count == 0) continue;
    // A bin whose sum, added up in another order, just misses the target is looked at all the same.
    if (bin < k_bin && before + bins_[bin].sum < target * (1 - 1e-12)) {
      before += bins_[bin].sum;
      continue;
    }
    std::span<const Candidate> sorted = SortedBin(row, blocks, bin);
    if (bin == k_bin) sorted = sorted.first(std::min(of_k_bin, sorted.size()));
    for (const Candidate& c : sorted) {
      before += static_cast<double>(Weight(c.logit));
      if (before >= target) return c;
    }
  }
  return last;
}

double RowDraw::KeptSum(const float* logits, size_t count, size_t first_id, const Cut& cut) const {
  constexpr size_t kLanes = 16;
  double sums[kLanes] = {};
  const auto id = static_cast<int32_t>(first_id);
  size_t i = 0;
  const auto weight = [&](size_t at) {
    const float distance = Distance(logits[at]);
    const bool kept =
        Kept(logits[at], id + static_cast<int32_t>(at), cut.last) & (distance <= cut.distance_max);
    return std::bit_cast<float>(std::bit_cast<uint32_t>(ExpNeg(distance)) & -uint32_t{kept});
  };
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) sums[j] += static_cast<double>(weight(i + j));
  }
  for (size_t j = 0; i < count; ++i, ++j) sums[j] += static_cast<double>(weight(i));
  double sum = 0;
  for (const double lane : sums) sum += lane;
  return sum;
}

int32_t RowDraw::Draw(std::span<const float> row, std::span<const LogitBlock> blocks,
                      const RowFilter& filter, double uniform) {
  inverse_temperature_ = 1.0f / filter.temperature;
  max_ = blocks[0].max;
  for (const LogitBlock& block : blocks) max_ = std::max(max_, block.max);
  const Cut cut{LastKept(row, blocks, filter),
                filter.min_p > 0 ? static_cast<float>(-std::log(static_cast<double>(filter.min_p)))
                                 : std::numeric_limits<float>::infinity()};

  double total = 0;
  for (size_t b = 0; b < blocks.size(); ++b) {
    const bool none = blocks[b].max < cut.last.logit || Distance(blocks[b].max) > cut.distance_max;
    const size_t begin = b * kLogitBlock;
    block_sums_[b] = none ? 0 : KeptSum(row.data() + begin, BlockCount(row.size(), b), begin, cut);
    total += block_sums_[b];
  }

  const double target = uniform * total;
  double before = 0;
  size_t chosen = 0;  // the block in which the target lies; by rounding, the last that has weight
  for (size_t b = 0; b < blocks.size(); ++b) {
    if (block_sums_[b] == 0) continue;
    chosen = b;
    if (before + block_sums_[b] > target) break;
    before += block_sums_[b];
  }
  int32_t id = -1;
  const size_t begin = chosen * kLogitBlock;
  for (size_t i = begin; i < begin + BlockCount(row.size(), chosen); ++i) {
    const float distance = Distance(row[i]);
    if (!Kept(row[i], static_cast<int32_t>(i), cut.last) || distance > cut.distance_max) continue;
    const auto weight = static_cast<double>(ExpNeg(distance));
    if (weight == 0) continue;
    id = static_cast<int32_t>(i);
    before += weight;
    if (before > target) break;
  }
  return id;
}

}  // namespace penstock
