#include "sample/logit_scan.h"

#include <algorithm>
#include <cmath>

#include "sample/exp_neg.h"

namespace penstock {
namespace {

// Independent sums and maxima in a loop: a vector of 512 bits, four of 128.
constexpr size_t kLanes = 16;
constexpr size_t kKeptMax = 2 * kCandidatesMax;

struct BlockRange {
  float max;
  bool finite;
};

// `count` > 0. A comparison with NaN is false, so NaN never becomes the maximum.
BlockRange RangeOf(const float* logits, size_t count) {
  float largest[kLanes];
  uint32_t bad[kLanes] = {};
  std::fill_n(largest, kLanes, -kLogitMax);
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) {
      const float x = logits[i + j];
      largest[j] = x > largest[j] ? x : largest[j];
      bad[j] |= std::fabs(x) <= kLogitMax ? 0 : 1;
    }
  }
  BlockRange range{-kLogitMax, true};
  for (; i < count; ++i) {
    range.max = std::max(range.max, logits[i]);
    range.finite &= std::fabs(logits[i]) <= kLogitMax;
  }
  for (size_t j = 0; j < kLanes; ++j) {
    range.max = std::max(range.max, largest[j]);
    range.finite &= bad[j] == 0;
  }
  return range;
}

float SumOfExp(const float* logits, size_t count, float max) {
  float sums[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) sums[j] += ExpNeg(max - logits[i + j]);
  }
  for (size_t j = 0; i < count; ++i, ++j) sums[j] += ExpNeg(max - logits[i]);
  float sum = 0;
  for (const float lane : sums) sum += lane;
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
  for (size_t i = 0; i < count; ++i) {
    const Candidate candidate{logits[i], static_cast<int32_t>(first_id + i)};
    if (full_ && !Before(candidate, last_)) {
      dropped_ = true;
      continue;
    }
    kept_.push_back(candidate);
  }
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

}  // namespace penstock
