// The block formats of GGUF weights: a row of a matrix is a sequence of blocks, each some elements
// with codes of a few bits and scales. Layouts follow the GGUF format of ggml. Integers are little
// endian, d and m are f16.
//
//   type   elements  bytes  in a block, in order
//   Q8_0      32      34    d, 32 s8
//   Q4_0      32      18    d, 16 bytes: element j in the low half of byte j, j + 16 in the high
//   Q4_1      32      20    d, m, 16 bytes as Q4_0
//   Q5_0      32      22    d, 32 bits: bit j is bit 4 of element j, 16 bytes as Q4_0
//   Q5_1      32      24    d, m, 32 bits, 16 bytes
//   Q4_K     256     144    d, m, 12 bytes of 8 scales and 8 mins of 6 bits, 128 bytes: of each
//                           32 bytes, the low halves are 32 elements, the high ones the next 32
//   Q5_K     256     176    d, m, 12 bytes, 32 bytes of bits: bit g of byte j is bit 4 of element
//                           32 g + j, 128 bytes as Q4_K
//   Q6_K     256     210    128 bytes of low halves, 64 bytes of two more bits, 16 s8 scales, d
//
// An element is, exactly in f32 but for one rounding where there is a min:
//   scale (code - offset) + min
// scale: d, or d times the scale of its 32 (Q6_K: 16) elements; min: m, or -m times the min of its
// 32 elements; offset: 8 in Q4_0, 16 in Q5_0, 32 in Q6_K.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::cpu {

enum class BlockType : uint8_t {
  kF32,
  kF16,
  kBf16,
  kQ8_0,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ4K,
  kQ5K,
  kQ6K,
};
// Static, as all functions of headers that instruction sets include: else the linker might keep one
// set's copy for the whole program.
static constexpr BlockType kBlockTypes[] = {BlockType::kF32,  BlockType::kF16,  BlockType::kBf16,
                                            BlockType::kQ8_0, BlockType::kQ4_0, BlockType::kQ4_1,
                                            BlockType::kQ5_0, BlockType::kQ5_1, BlockType::kQ4K,
                                            BlockType::kQ5K,  BlockType::kQ6K};

struct BlockFormat {
  const char* name;
  size_t elements;
  size_t bytes;
  int offset;     // of a code
  int low_bits;   // bits of a code in one plane, 8 or 4 ...
  int high_bits;  // ... and in another; both 0: floats
  bool has_min;
  bool has_scales;  // of 6 or 8 bits, beside d
};

static constexpr BlockFormat FormatOf(BlockType type) {
  switch (type) {
    case BlockType::kF32:
      return {"F32", 1, 4, 0, 0, 0, false, false};
    case BlockType::kF16:
      return {"F16", 1, 2, 0, 0, 0, false, false};
    case BlockType::kBf16:
      return {"BF16", 1, 2, 0, 0, 0, false, false};
    case BlockType::kQ8_0:
      return {"Q8_0", 32, 34, 0, 8, 0, false, false};
    case BlockType::kQ4_0:
      return {"Q4_0", 32, 18, 8, 4, 0, false, false};
    case BlockType::kQ4_1:
      return {"Q4_1", 32, 20, 0, 4, 0, true, false};
    case BlockType::kQ5_0:
      return {"Q5_0", 32, 22, 16, 4, 1, false, false};
    case BlockType::kQ5_1:
      return {"Q5_1", 32, 24, 0, 4, 1, true, false};
    case BlockType::kQ4K:
      return {"Q4_K", 256, 144, 0, 4, 0, true, true};
    case BlockType::kQ5K:
      return {"Q5_K", 256, 176, 0, 4, 1, true, true};
    case BlockType::kQ6K:
      return {"Q6_K", 256, 210, 32, 4, 2, false, true};
  }
  return {};
}

static constexpr bool IsFloat(BlockType type) { return FormatOf(type).low_bits == 0; }

constexpr size_t kBlockElementsMax = 256;

// A block's fields, as integers.
struct BlockFields {
  uint16_t d = 0;  // f16
  uint16_t m = 0;  // f16
  // Codes before `offset` is taken off: 0 .. 63; of Q8_0 -128 .. 127.
  int8_t codes[kBlockElementsMax];
  int8_t scales[16];  // for 32 elements each: 8 of them; Q6_K: for 16
  int8_t mins[8];     // for 32 elements each
};

// One block of a type that is no float.
void ReadBlock(BlockType type, const std::byte* block, BlockFields* fields);

// `count` elements of a row, whole blocks, as floats. The reference for every kernel.
void DequantizeRow(BlockType type, const std::byte* row, size_t count, float* to);

}  // namespace penstock::cpu
