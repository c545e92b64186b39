#include "cpu/group_plan.h"

#include <algorithm>

namespace penstock::cpu {
namespace {

// Of a worker's cache; weight panels pass through the rest.
constexpr double kCacheShare = 0.75;
// The last worker ends at most this much after the mean.
constexpr double kUnevenMax = 1.1;

}  // namespace

GroupPlan::GroupPlan(size_t workers, size_t token_bytes, size_t cache_bytes)
    : group_tokens_(std::clamp(
          static_cast<size_t>(kCacheShare * static_cast<double>(cache_bytes)) / token_bytes,
          kTokensMin, kTokensMax)),
      loads_(workers) {}

bool GroupPlan::Make(const program::PackedBatch& batch) {
  groups_.clear();
  for (size_t s = 0; s < batch.sequences(); ++s) {
    const size_t length = static_cast<size_t>(batch.length(s));
    if (groups_.empty() || groups_.back().tokens + length > group_tokens_) {
      groups_.push_back({s, s, 0});
    }
    groups_.back().end = s + 1;
    groups_.back().tokens += length;
  }
  std::sort(groups_.begin(), groups_.end(),
            [](const Group& a, const Group& b) { return a.tokens > b.tokens; });
  std::fill(loads_.begin(), loads_.end(), 0);
  size_t last = 0;
  for (const Group& group : groups_) {
    size_t& least = *std::min_element(loads_.begin(), loads_.end());
    least += group.tokens;
    last = std::max(last, least);
  }
  return static_cast<double>(last * loads_.size()) <=
         kUnevenMax * static_cast<double>(batch.tokens());
}

}  // namespace penstock::cpu
