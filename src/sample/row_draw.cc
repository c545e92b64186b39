#include "sample/row_draw.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>

#include "sample/exp_neg.h"

namespace penstock::sample {
namespace {

// Bins of 1 + distance: 128 for each power of two below 128, and one for what is farther, whose
// weights are 0. Rounding keeps order, so that a token in an earlier bin is never behind one in a
// later bin.
constexpr uint32_t kMantissaBits = 7;
constexpr size_t kBins = (7u << kMantissaBits) + 1;

constexpr size_t kDrawStep = 4 * kFloats;
// No token comes behind it.
constexpr Candidate kAll{-std::numeric_limits<float>::infinity(), 0};

uint32_t BinOf(float distance) {
  constexpr uint32_t kShift = 23 - kMantissaBits;
  constexpr uint32_t kFirst = std::bit_cast<uint32_t>(1.0f) >> kShift;
  return (std::bit_cast<uint32_t>(1.0f + std::min(distance, 127.0f)) >> kShift) - kFirst;
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
  maxima_.reserve(LogitBlocks(vocabulary));
  bins_.resize(kBins);
  near_.reserve(vocabulary);
  sorted_.reserve(vocabulary);
}

double RowDraw::WeightOf(float logit) const { return static_cast<double>(ExpNeg(Distance(logit))); }

float RowDraw::KeptSum(const float* logits, size_t count, size_t first_id, const Cut& cut) const {
  const Floats last = AllFloats(cut.last.logit);
  const Ints last_id = Ints{} + cut.last.id;
  const Floats farthest = AllFloats(cut.distance_max);
  const auto weights = [&](Floats x, Ints id) {
    const Floats distance = (max_ - x) * inverse_temperature_;
    const Ints kept = ((x > last) | ((x == last) & (id <= last_id))) & (distance <= farthest);
    return Masked(ExpNeg(distance), kept);
  };
  Floats sums[4] = {};
  Ints id = Ints{0, 1, 2, 3} + static_cast<int32_t>(first_id);
  size_t i = 0;
  for (; i + kDrawStep <= count; i += kDrawStep) {
    for (size_t c = 0; c < 4; ++c) {
      sums[c] += weights(LoadFloats(logits + i + c * kFloats), id);
      id += static_cast<int32_t>(kFloats);
    }
  }
  float sum = 0;
  for (; i < count; ++i) {
    sum += weights(AllFloats(logits[i]), Ints{} + static_cast<int32_t>(first_id + i))[0];
  }
  for (const Floats& v : sums) sum += (v[0] + v[1]) + (v[2] + v[3]);
  return sum;
}

double RowDraw::SumBlocks(std::span<const float> row, std::span<const LogitBlock> blocks,
                          const Cut& cut) {
  double total = 0;
  for (size_t b = 0; b < blocks.size(); ++b) {
    const bool none = blocks[b].max < cut.last.logit || Distance(blocks[b].max) > cut.distance_max;
    const size_t begin = b * kLogitBlock;
    block_sums_[b] = none ? 0
                          : static_cast<double>(
                                KeptSum(row.data() + begin, BlockCount(row.size(), b), begin, cut));
    total += block_sums_[b];
  }
  return total;
}

float RowDraw::LowestOfTopK(std::span<const LogitBlock> blocks, size_t top_k) {
  if (blocks.size() < top_k) return -std::numeric_limits<float>::infinity();
  // Each of top_k blocks has a token as large as the least of their maxima.
  maxima_.clear();
  for (const LogitBlock& block : blocks) maxima_.push_back(block.max);
  const auto least = maxima_.begin() + static_cast<ptrdiff_t>(top_k) - 1;
  std::nth_element(maxima_.begin(), least, maxima_.end(), std::greater<>());
  return *least;
}

float RowDraw::LowestOfTopP(double total, size_t vocabulary, float top_p) const {
  // Were all tokens below this weight, they would together have less than half of what top-p
  // leaves out; so the others have more than it keeps. The half is for rounding.
  const double weight =
      0.5 * (1 - static_cast<double>(top_p)) * total / static_cast<double>(vocabulary);
  return static_cast<float>(static_cast<double>(max_) +
                            std::log(std::min(weight, 1.0)) / inverse_temperature_);
}

void RowDraw::FillBins(std::span<const float> row, std::span<const LogitBlock> blocks,
                       float lowest) {
  near_.clear();
  const auto add = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if (row[i] >= lowest) near_.push_back({row[i], static_cast<int32_t>(i)});
    }
  };
  for (size_t b = 0; b < blocks.size(); ++b) {
    if (blocks[b].max < lowest) continue;
    size_t i = b * kLogitBlock;
    const size_t end = i + BlockCount(row.size(), b);
    for (; i + kDrawStep <= end; i += kDrawStep) {
      Ints any = {};
      for (size_t c = 0; c < 4; ++c) {
        any |= LoadFloats(row.data() + i + c * kFloats) >= AllFloats(lowest);
      }
      if (Any(any)) add(i, i + kDrawStep);
    }
    add(i, end);
  }
  std::fill(bins_.begin(), bins_.end(), Bin{});
  for (const Candidate& c : near_) {
    Bin& bin = bins_[BinOf(Distance(c.logit))];
    bin.sum += WeightOf(c.logit);
    ++bin.count;
  }
}

std::span<const Candidate> RowDraw::SortedBin(size_t bin) {
  sorted_.clear();
  for (const Candidate& c : near_) {
    if (BinOf(Distance(c.logit)) == bin) sorted_.push_back(c);
  }
  std::sort(sorted_.begin(), sorted_.end(), Before);
  return sorted_;
}

Candidate RowDraw::LastKept(std::span<const float> row, std::span<const LogitBlock> blocks,
                            const RowFilter& filter) {
  const bool by_k = filter.top_k > 0 && filter.top_k < row.size();
  if (!by_k && filter.top_p >= 1) return kAll;

  // Top-k: `k_bin` and how many of it are kept; `total`: the weight of all that are.
  size_t k_bin = kBins - 1;
  size_t of_k_bin = row.size();
  double total = 0;
  Candidate last = kAll;
  if (by_k) {
    FillBins(row, blocks, LowestOfTopK(blocks, filter.top_k));
    size_t left = filter.top_k;
    for (k_bin = 0; bins_[k_bin].count < left; ++k_bin) {
      left -= bins_[k_bin].count;
      total += bins_[k_bin].sum;
    }
    of_k_bin = left;
    const std::span<const Candidate> sorted = SortedBin(k_bin).first(of_k_bin);
    for (const Candidate& c : sorted) total += WeightOf(c.logit);
    last = sorted.back();
  } else {
    total = SumBlocks(row, blocks, {kAll, std::numeric_limits<float>::infinity()});
    FillBins(row, blocks, LowestOfTopP(total, row.size(), filter.top_p));
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
    std::span<const Candidate> sorted = SortedBin(bin);
    if (bin == k_bin) sorted = sorted.first(std::min(of_k_bin, sorted.size()));
    for (const Candidate& c : sorted) {
      before += WeightOf(c.logit);
      if (before >= target) return c;
    }
  }
  return last;
}

int32_t RowDraw::Draw(std::span<const float> row, std::span<const LogitBlock> blocks,
                      const RowFilter& filter, double uniform) {
  inverse_temperature_ = 1.0f / filter.temperature;
  max_ = blocks[0].max;
  for (const LogitBlock& block : blocks) max_ = std::max(max_, block.max);
  const Cut cut{LastKept(row, blocks, filter),
                filter.min_p > 0 ? static_cast<float>(-std::log(static_cast<double>(filter.min_p)))
                                 : std::numeric_limits<float>::infinity()};

  const double total = SumBlocks(row, blocks, cut);
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

}  // namespace penstock::sample
