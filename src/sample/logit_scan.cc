#include "sample/logit_scan.h"

#include <algorithm>
#include <cmath>

#include "sample/exp_neg.h"

namespace penstock::sample {
namespace {

// Vectors that are added up or compared independently of each other.
constexpr size_t kChains = 4;
constexpr size_t kStep = kChains * kFloats;
constexpr size_t kKeptMax = 2 * kCandidatesMax;

struct BlockRange {
  float max;
  bool finite;
};

// `count` > 0. A comparison with NaN is false, so NaN never becomes the maximum.
BlockRange RangeOf(const float* logits, size_t count) {
  const Floats limit = AllFloats(kLogitMax);
  Floats largest[kChains] = {-limit, -limit, -limit, -limit};
  Ints good[kChains] = {~Ints{}, ~Ints{}, ~Ints{}, ~Ints{}};
  size_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    for (size_t c = 0; c < kChains; ++c) {
      const Floats x = LoadFloats(logits + i + c * kFloats);
      largest[c] = x > largest[c] ? x : largest[c];
      good[c] &= Masked(x, Ints{} + INT32_MAX) <= limit;
    }
  }
  BlockRange range{-kLogitMax, true};
  for (; i < count; ++i) {
    range.max = std::max(range.max, logits[i]);
    range.finite &= std::fabs(logits[i]) <= kLogitMax;
  }
  const auto larger = [](Floats a, Floats b) { return a > b ? a : b; };
  const Floats four = larger(larger(largest[0], largest[1]), larger(largest[2], largest[3]));
  range.max = std::max({range.max, std::max(four[0], four[1]), std::max(four[2], four[3])});
  range.finite &= !Any(~((good[0] & good[1]) & (good[2] & good[3])));
  return range;
}

float SumOfExp(const float* logits, size_t count, float max) {
  Floats sums[kChains] = {};
  size_t i = 0;
  for (; i + kStep <= count; i += kStep) {
    for (size_t c = 0; c < kChains; ++c) {
      sums[c] += ExpNeg(max - LoadFloats(logits + i + c * kFloats));
    }
  }
  float sum = 0;
  for (; i < count; ++i) sum += ExpNeg(max - logits[i]);
  for (const Floats& v : sums) sum += (v[0] + v[1]) + (v[2] + v[3]);
  return sum;
}

}  // namespace

void LogitScan::Reset(size_t keep, bool sums) {
  keep_ = keep;
  sums_ = sums;
  kept_.clear();
  kept_.reserve(kKeptMax + kLogitBlock);
  full_ = false;
  dropped_ = false;
  bad_id_ = -1;
}

void LogitScan::Shrink() {
  if (kept_.size() <= keep_) return;
  std::nth_element(kept_.begin(), kept_.begin() + static_cast<ptrdiff_t>(keep_) - 1, kept_.end(),
                   Before);
  kept_.resize(keep_);
  last_ = kept_.back();
  full_ = true;
  dropped_ = true;
}

void LogitScan::AddBlock(const float* logits, size_t count, size_t first_id) {
  const auto add = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const Candidate candidate{logits[i], static_cast<int32_t>(first_id + i)};
      if (!full_ || Before(candidate, last_)) kept_.push_back(candidate);
    }
  };
  const size_t before = kept_.size();
  size_t i = 0;
  for (; full_ && i + kStep <= count; i += kStep) {
    Ints any = {};
    for (size_t c = 0; c < kChains; ++c) {
      any |= LoadFloats(logits + i + c * kFloats) >= AllFloats(last_.logit);
    }
    if (Any(any)) add(i, i + kStep);
  }
  add(i, count);
  dropped_ |= kept_.size() - before < count;
  if (kept_.size() > kKeptMax || keep_ == 1) Shrink();
}

void LogitScan::Add(std::span<const float> logits, size_t first_id, LogitBlock* blocks) {
  for (size_t begin = 0; begin < logits.size(); begin += kLogitBlock) {
    const size_t count = std::min(kLogitBlock, logits.size() - begin);
    const float* const block = logits.data() + begin;
    const size_t id = first_id + begin;
    const BlockRange range = RangeOf(block, count);
    if (!range.finite) {
      const float* const bad =
          std::find_if(block, block + count, [](float x) { return !(std::fabs(x) <= kLogitMax); });
      const auto bad_id = static_cast<int32_t>(id + static_cast<size_t>(bad - block));
      bad_id_ = bad_id_ < 0 ? bad_id : std::min(bad_id_, bad_id);
      continue;
    }
    if (blocks != nullptr) {
      blocks[id / kLogitBlock] = {range.max, sums_ ? SumOfExp(block, count, range.max) : 0.0f};
    }
    if (full_ && !Before({range.max, static_cast<int32_t>(id)}, last_)) {
      dropped_ = true;
      continue;
    }
    AddBlock(block, count, id);
  }
}

LogitPart LogitScan::Part() {
  Shrink();
  std::sort(kept_.begin(), kept_.end(), Before);
  return {kept_, dropped_, bad_id_};
}

double LogSumExp(std::span<const LogitBlock> blocks) {
  float max = -kLogitMax;
  for (const LogitBlock& block : blocks) max = std::max(max, block.max);
  double sum = 0;
  for (const LogitBlock& block : blocks) {
    sum += static_cast<double>(block.sum) * std::exp(static_cast<double>(block.max) - max);
  }
  return static_cast<double>(max) + std::log(sum);
}

}  // namespace penstock::sample
