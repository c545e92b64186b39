#include "kv/cache_pools.h"

#include "base/status.h"

namespace penstock::kv {

std::unique_ptr<GroupPolicy> NewGroupPolicy(const CacheGroup& group) {
  switch (group.kind) {
    case CacheKind::kFull:
      return NewFullPolicy();
    case CacheKind::kWindow:
      return NewWindowPolicy(group.window);
    case CacheKind::kState:
      return NewStatePolicy();
  }
  return nullptr;
}

CachePools::CachePools(std::span<const CacheGroup> groups, std::span<const int32_t> blocks,
                       int32_t page_blocks) {
  PENSTOCK_CHECK(!groups.empty() && groups.size() <= kCacheGroupsMax &&
                 groups.size() <= blocks.size() && groups[0].kind == CacheKind::kFull);
  for (size_t g = 0; g < groups.size(); ++g) {
    groups_.push_back(std::unique_ptr<Group>(
        new Group{groups[g], NewGroupPolicy(groups[g]), BlockPool(blocks[g], page_blocks)}));
    can_shorten_ = can_shorten_ && policy(g).CanShorten();
  }
}

GroupCounts CachePools::MostHeld(int32_t blocks, int32_t rows) const {
  GroupCounts held{};
  for (size_t g = 0; g < size(); ++g) {
    held[g] = static_cast<int32_t>(policy(g).MostHeld(blocks, rows));
  }
  return held;
}

GroupCounts CachePools::available() const {
  GroupCounts counts{};
  for (size_t g = 0; g < size(); ++g) counts[g] = groups_[g]->pool.available();
  return counts;
}

std::vector<int32_t> BlocksOfOneText(std::span<const CacheGroup> groups, int32_t tokens,
                                     int32_t rows) {
  std::vector<int32_t> blocks;
  for (const CacheGroup& group : groups) {
    blocks.push_back(
        static_cast<int32_t>(NewGroupPolicy(group)->MostHeld(BlocksOfTokens(tokens), rows)));
  }
  return blocks;
}

std::vector<BlockTable> TablesOfOneText(std::span<const CacheGroup> groups, int32_t tokens,
                                        int32_t rows) {
  std::vector<BlockTable> tables;
  for (const int32_t blocks : BlocksOfOneText(groups, tokens, rows)) {
    BlockTable& table = tables.emplace_back();
    for (int32_t i = 0; i < BlocksOfTokens(tokens); ++i) table.push_back(i % blocks);
  }
  return tables;
}

}  // namespace penstock::kv
