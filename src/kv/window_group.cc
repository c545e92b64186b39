// Layers that see the last tokens alone: what has left the window needs no block.
#include <algorithm>

#include "kv/group_policy.h"

namespace penstock::kv {
namespace {

class WindowPolicy final : public GroupPolicy {
 public:
  explicit WindowPolicy(int32_t window) : window_(window) {}
  size_t FirstNeeded(size_t whole) const override {
    return static_cast<size_t>(
        FirstSeenBlock(static_cast<int32_t>(whole) * kKvBlockTokens, window_));
  }
  int64_t MostHeld(int64_t blocks, int32_t rows) const override {
    // Both ends may lie within a block.
    return std::min<int64_t>(blocks, BlocksOfTokens(int64_t{window_} + rows) + 2);
  }

 private:
  const int32_t window_;
};

}  // namespace

std::unique_ptr<GroupPolicy> NewWindowPolicy(int32_t window) {
  return std::make_unique<WindowPolicy>(window);
}

}  // namespace penstock::kv
