// The unit in which a decoder's cache of keys and values is shared out: what the backends that hold
// the bytes (tensor/step.h) and the owner of the ids (kv/block_pool.h) have in common.
#pragma once

#include <cstdint>

namespace penstock {

// Tokens of one sequence whose keys and values, of all layers, a block of the cache holds.
inline constexpr int32_t kKvBlockTokens = 32;

}  // namespace penstock
