// The unit in which a decoder's cache of keys and values is shared out: what the backends that hold
// the bytes (program/step.h) and the owner of the ids (kv/block_pool.h) have in common.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace penstock {

// Tokens of one sequence whose keys and values, of all layers of an area, a block of the cache
// holds.
inline constexpr int32_t kKvBlockTokens = 32;

// A cache has an area for the layers that see all tokens and, if its owner wants that, one for
// those with a window, each with blocks of its own: what has left the window needs no block there.
enum class KvArea : uint8_t { kFull, kWindow };
inline constexpr size_t kKvAreas = 2;

// The first block with a key that the token after `length` others sees, or a later one.
constexpr int32_t FirstSeenBlock(int32_t length, int32_t window) {
  return std::max(0, length + 1 - window) / kKvBlockTokens;
}

// Blocks of the window area that let one sequence go on, in steps of up to `rows` of its tokens.
constexpr int64_t WindowBlocksOf(int32_t window, int32_t rows) {
  return (int64_t{window} + rows + kKvBlockTokens - 1) / kKvBlockTokens + 2;
}

}  // namespace penstock
