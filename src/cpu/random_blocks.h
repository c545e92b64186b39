// Blocks for tests, benchmarks and the self check.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cpu/block_fields.h"

namespace penstock::cpu {

// Offset of a block's d; m follows it.
inline size_t ScaleOffset(DType type) { return type == DType::kQ6K ? 208 : 0; }

// Bytes of a linear congruential generator, the same for the same seed; d and m are below 2.
inline std::vector<std::byte> RandomBlocks(DType type, size_t blocks, uint32_t seed) {
  const BlockFormat format = FormatOf(type);
  std::vector<std::byte> bytes(blocks * format.bytes);
  for (std::byte& b : bytes) {
    seed = seed * 1664525 + 1013904223;
    b = static_cast<std::byte>(seed >> 24);
  }
  for (size_t i = 0; i < blocks; ++i) {
    std::byte* block = bytes.data() + i * format.bytes;
    if (type == DType::kF32) block[3] &= std::byte{0xbf};
    if (type == DType::kBf16 || type == DType::kF16) block[1] &= std::byte{0xbf};
    if (!IsBlockType(type)) continue;
    block[ScaleOffset(type) + 1] &= std::byte{0xbf};
    if (format.has_min) block[ScaleOffset(type) + 3] &= std::byte{0xbf};
  }
  return bytes;
}

}  // namespace penstock::cpu
