// What the backends that hold a decoder's cache (program/program_run.h) and the owner of the ids of
// its blocks (kv/) have in common: the unit in which it is shared out, and its groups.
//
//   group      layers that keep the same of the tokens before (CacheKind); each group has blocks of
//              its own, so that what one group still needs takes no room in another
//   block      room for kKvBlockTokens tokens of one sequence in all layers of a group; of states,
//              one state of all its layers
//   table      the blocks of a sequence in one group, in the order of its tokens
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace penstock {

// Tokens of one sequence whose keys and values a block of the cache holds.
inline constexpr int32_t kKvBlockTokens = 32;

enum class CacheKind : uint8_t {
  kFull,    // keys and values of all tokens
  kWindow,  // keys and values of the last tokens, CacheGroup::window of them
  kState,   // one state that a recurrent layer carries from token to token; block i holds it as it
            // is after the last token of the block that was run
};
inline constexpr size_t kCacheKinds = 3;
inline constexpr std::array<const char*, kCacheKinds> kCacheKindNames = {"full", "window", "state"};

struct CacheGroup {
  CacheKind kind = CacheKind::kFull;
  int32_t window = 0;  // kWindow: tokens that its layers see at most, the token itself included

  bool operator==(const CacheGroup&) const = default;
};
// For layers that see all tokens, or a caller that keeps everything.
inline constexpr CacheGroup kFullGroup{};

// The most groups that a cache has.
inline constexpr size_t kCacheGroupsMax = 4;
// A number for each group; 0 beyond the last one.
using GroupCounts = std::array<int32_t, kCacheGroupsMax>;

// Blocks that hold this number of tokens.
constexpr int32_t BlocksOfTokens(int64_t tokens) {
  return static_cast<int32_t>((tokens + kKvBlockTokens - 1) / kKvBlockTokens);
}

// The first block with a key that the token after `length` others sees, or a later one.
constexpr int32_t FirstSeenBlock(int32_t length, int32_t window) {
  return std::max(0, length + 1 - window) / kKvBlockTokens;
}

using BlockTable = std::vector<int32_t>;

// A view of a sequence's tables, one for each group.
class BlockTables {
 public:
  BlockTables() = default;
  BlockTables(std::span<const BlockTable> tables) : tables_(tables) {}
  BlockTables(const std::vector<BlockTable>& tables) : tables_(tables) {}
  // The first group alone.
  BlockTables(const BlockTable& table) : tables_(&table, 1) {}

  size_t size() const { return tables_.size(); }
  const BlockTable& operator[](size_t group) const { return tables_[group]; }

 private:
  std::span<const BlockTable> tables_;
};

}  // namespace penstock
