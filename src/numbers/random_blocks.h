// Blocks for tests, benchmarks and the self check.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "numbers/block_fields.h"

namespace penstock::numbers {

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

// The nearest f16 of a number below 65504.
inline uint16_t HalfOf(double x) {
  int exponent = 0;
  const double part = std::frexp(std::abs(x), &exponent);  // in [0.5, 1)
  const double bits =
      exponent < -13 ? std::ldexp(std::abs(x), 24) : (exponent + 13) * 1024 + part * 2048;
  return static_cast<uint16_t>(std::lround(bits) | (x < 0 ? 0x8000 : 0));
}

// Rows of a matrix: numbers of about 1 / sqrt(columns), as in a model.
inline std::vector<std::byte> RandomWeights(DType type, size_t rows, size_t columns,
                                            uint32_t seed) {
  const double spread = 1 / std::sqrt(static_cast<double>(columns));
  std::vector<std::byte> bytes(rows * StoredBytes(type, columns));
  if (!IsBlockType(type)) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, static_cast<float>(spread));
    const size_t size = DTypeBytes(type);
    for (size_t i = 0; i < rows * columns; ++i) {
      const float x = normal(random);
      const uint16_t half = HalfOf(static_cast<double>(x));
      const auto* from = reinterpret_cast<const std::byte*>(&x);
      if (type == DType::kBf16) from += 2;  // the high half
      if (type == DType::kF16) from = reinterpret_cast<const std::byte*>(&half);
      std::memcpy(bytes.data() + size * i, from, size);
    }
    return bytes;
  }
  const BlockFormat format = FormatOf(type);
  const size_t blocks = rows * columns / format.elements;
  bytes = RandomBlocks(type, blocks, seed);
  // Codes reach from 0 to `most`, scales to 63 or 127; a min takes the middle off.
  const double most = std::exp2(format.low_bits + format.high_bits);
  const double scales = format.has_scales ? (format.has_min ? 32 : 64) : 1;
  const uint16_t d = HalfOf(3.5 * spread / most / scales);
  const uint16_t m = HalfOf((format.has_scales ? 1 : -1) * 1.75 * spread / scales);
  for (size_t i = 0; i < blocks; ++i) {
    std::byte* at = bytes.data() + i * format.bytes + ScaleOffset(type);
    std::memcpy(at, &d, sizeof(d));
    if (format.has_min) std::memcpy(at + 2, &m, sizeof(m));
  }
  return bytes;
}

}  // namespace penstock::numbers
