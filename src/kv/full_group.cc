// Layers that see all tokens before.
#include "kv/group_policy.h"

namespace penstock::kv {
namespace {

class FullPolicy final : public GroupPolicy {
 public:
  size_t FirstNeeded(size_t /*whole*/) const override { return 0; }
  int64_t MostHeld(int64_t blocks, int32_t /*rows*/) const override { return blocks; }
};

}  // namespace

std::unique_ptr<GroupPolicy> NewFullPolicy() { return std::make_unique<FullPolicy>(); }

}  // namespace penstock::kv
