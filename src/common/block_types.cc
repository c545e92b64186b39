#include "common/block_types.h"

#include <bit>
#include <cstdint>
#include <cstring>

#include "common/status.h"

namespace penstock {
namespace {

static_assert(std::endian::native == std::endian::little, "blocks are read as they lie");

constexpr size_t kPairs = 16;        // bytes with two codes, in a block of 32
constexpr size_t kRun = 32;          // elements of Q4_K and Q5_K with the same factors
constexpr size_t kFactorBytes = 12;  // of Q4_K and Q5_K

float HalfAt(const uint8_t* at) {
  uint16_t half;
  std::memcpy(&half, at, sizeof half);
  return HalfToFloat(half);
}

// The first half of the elements is in the lower four bits, the second in the upper ones.
int PairedCode(const uint8_t* pairs, size_t i, size_t half) {
  return i < half ? pairs[i] & 15 : pairs[i - half] >> 4;
}

void ReadQ8_0(const uint8_t* block, float* to) {
  const float scale = HalfAt(block);
  for (size_t i = 0; i < 2 * kPairs; ++i) {
    to[i] = scale * static_cast<float>(static_cast<int8_t>(block[2 + i]));
  }
}

void ReadQ4_0(const uint8_t* block, float* to) {
  const float scale = HalfAt(block);
  for (size_t i = 0; i < 2 * kPairs; ++i) {
    to[i] = scale * static_cast<float>(PairedCode(block + 2, i, kPairs) - 8);
  }
}

void ReadQ4_1(const uint8_t* block, float* to) {
  const float scale = HalfAt(block);
  const float minimum = HalfAt(block + 2);
  for (size_t i = 0; i < 2 * kPairs; ++i) {
    to[i] = scale * static_cast<float>(PairedCode(block + 4, i, kPairs)) + minimum;
  }
}

// Codes of five bits: the fifth ones in four bytes, then the pairs.
int FiveBits(const uint8_t* codes, size_t i) {
  const int fifth = codes[i / 8] >> (i % 8) & 1;
  return PairedCode(codes + 4, i, kPairs) | fifth << 4;
}

void ReadQ5_0(const uint8_t* block, float* to) {
  const float scale = HalfAt(block);
  for (size_t i = 0; i < 2 * kPairs; ++i) {
    to[i] = scale * static_cast<float>(FiveBits(block + 2, i) - 16);
  }
}

void ReadQ5_1(const uint8_t* block, float* to) {
  const float scale = HalfAt(block);
  const float minimum = HalfAt(block + 2);
  for (size_t i = 0; i < 2 * kPairs; ++i) {
    to[i] = scale * static_cast<float>(FiveBits(block + 4, i)) + minimum;
  }
}

// Eight runs' factors of scale and of minimum, six bits each. Of the first four runs they lie in
// the lower bits of bytes 0-3 and 4-7; of the last four, the lower four bits lie in bytes 8-11 and
// the upper two above the factors of the first four.
struct Factors {
  int scale;
  int minimum;
};
Factors FactorsOf(const uint8_t* bytes, size_t run) {
  if (run < 4) return {bytes[run] & 63, bytes[run + 4] & 63};
  const uint8_t low = bytes[run + 4];
  return {(low & 15) | bytes[run - 4] >> 6 << 4, low >> 4 | bytes[run] >> 6 << 4};
}

// Q4_K, and with `fifths` Q5_K: a byte for each place in a run, a bit for each run.
void ReadRuns(const uint8_t* block, const uint8_t* fifths, const uint8_t* pairs, float* to) {
  const float scale = HalfAt(block);
  const float minimum = HalfAt(block + 2);
  for (size_t run = 0; run < 8; ++run) {
    const Factors factors = FactorsOf(block + 4, run);
    const float run_scale = scale * static_cast<float>(factors.scale);
    const float run_minimum = minimum * static_cast<float>(factors.minimum);
    const uint8_t* codes = pairs + run / 2 * kRun;  // two runs share them
    for (size_t i = 0; i < kRun; ++i) {
      int code = PairedCode(codes, i + run % 2 * kRun, kRun);
      if (fifths != nullptr) code |= (fifths[i] >> run & 1) << 4;
      to[run * kRun + i] = run_scale * static_cast<float>(code) - run_minimum;
    }
  }
}

void ReadQ4K(const uint8_t* block, float* to) {
  ReadRuns(block, nullptr, block + 4 + kFactorBytes, to);
}

void ReadQ5K(const uint8_t* block, float* to) {
  const uint8_t* fifths = block + 4 + kFactorBytes;
  ReadRuns(block, fifths, fifths + kRun, to);
}

// Two halves of 128 elements, each with 64 bytes of pairs, 32 of upper bits and 8 factors.
void ReadQ6K(const uint8_t* block, float* to) {
  const uint8_t* pairs = block;
  const uint8_t* uppers = block + 128;
  const uint8_t* factors = block + 192;
  const float scale = HalfAt(block + 208);
  for (size_t i = 0; i < 256; ++i) {
    const size_t half = i / 128;
    const size_t place = i % 128;
    const int low = PairedCode(pairs + half * 64, place, 64);
    const int upper = uppers[half * 32 + place % 32] >> (place / 32 * 2) & 3;
    const float factor = scale * static_cast<float>(static_cast<int8_t>(factors[i / 16]));
    to[i] = factor * static_cast<float>((low | upper << 4) - 32);
  }
}

template <void (*Read)(const uint8_t*, float*)>
void ReadBlocks(DTypeBlock block, const uint8_t* from, size_t count, float* to) {
  for (size_t b = 0; b < count; ++b) Read(from + b * block.bytes, to + b * block.elements);
}

}  // namespace

void BlocksToF32(DType dtype, const std::byte* from, size_t count, float* to) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(from);
  const DTypeBlock block = BlockOf(dtype);
  switch (dtype) {
    case DType::kQ8_0:
      return ReadBlocks<ReadQ8_0>(block, bytes, count, to);
    case DType::kQ4_0:
      return ReadBlocks<ReadQ4_0>(block, bytes, count, to);
    case DType::kQ4_1:
      return ReadBlocks<ReadQ4_1>(block, bytes, count, to);
    case DType::kQ5_0:
      return ReadBlocks<ReadQ5_0>(block, bytes, count, to);
    case DType::kQ5_1:
      return ReadBlocks<ReadQ5_1>(block, bytes, count, to);
    case DType::kQ4K:
      return ReadBlocks<ReadQ4K>(block, bytes, count, to);
    case DType::kQ5K:
      return ReadBlocks<ReadQ5K>(block, bytes, count, to);
    case DType::kQ6K:
      return ReadBlocks<ReadQ6K>(block, bytes, count, to);
    default:
      PENSTOCK_CHECK(IsBlockType(dtype));
  }
}

}  // namespace penstock
