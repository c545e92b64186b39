// Recurrent layers: the state at the end of a block stands for all tokens up to there.
#include <algorithm>

#include "kv/group_policy.h"

namespace penstock::kv {
namespace {

class StatePolicy final : public GroupPolicy {
 public:
  size_t FirstNeeded(size_t whole) const override { return whole == 0 ? 0 : whole - 1; }
  int64_t MostHeld(int64_t blocks, int32_t rows) const override {
    // The state that a step goes on from, and those of the blocks that its rows touch.
    return std::min<int64_t>(blocks, BlocksOfTokens(int64_t{rows} - 1) + 2);
  }
  // A state does not tell what it was before its last token.
  bool CanShorten() const override { return false; }
};

}  // namespace

std::unique_ptr<GroupPolicy> NewStatePolicy() { return std::make_unique<StatePolicy>(); }

}  // namespace penstock::kv
