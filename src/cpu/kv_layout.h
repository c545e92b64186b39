// Keys and values of past tokens as attention reads them, and the tasks of the kernels that write
// and read them (cpu/kernels.h has the functions).
//
// A block holds the keys and values of kKvBlock neighbouring tokens, of one layer and one KV head,
// already as panels, so that attention packs nothing. A lane is what one vector lane takes: one
// value, or in bf16 a pair of neighbouring k (dimensions of a key, tokens of a value):
//
//   keys          [head_size / lane values][kKvBlock tokens]              lanes
//   key scales    [kKvBlock]                                              f32, kI8 only
//   values        [kKvBlock / lane values][KvRowValues(head_size)]        lanes
//   value scales  [kKvBlock]                                              f32, kI8 only
//
// The layout is the same for every instruction set. kI8 is s8 with one scale for each token's key
// and one for its value: the largest magnitude / 127. f16 saturates at 65504.
//
// Positions of a sequence are cut into blocks and into chunks of kKvChunk, both counted from
// position 0. One call attends to one chunk and gives a part; parts of a row are joined in order of
// position. What a (row, head) gets is a function of its query, of the keys and values it sees and
// of their positions, to the bit, whatever rows and heads are computed with it and whichever keys
// follow. (Values of tokens in a row's last block that follow it must not be infinite or NaN: 0
// times such a value is NaN.)
#pragma once

#include <cstddef>
#include <cstdint>

#include "numbers/dtype.h"

namespace penstock::cpu {

constexpr size_t kKvBlock = 32;
constexpr size_t kKvChunk = 256;
static_assert(kKvChunk % kKvBlock == 0);
constexpr size_t kKvHeadSizeMax = 512;  // head sizes are even

// Where the parts of a block begin, in bytes.
struct KvLayout {
  size_t lane_values;
  size_t lane_bytes;
  size_t row_values;  // values of one token, the last ones zero: whole cache lines of f32
  size_t key_scales;
  size_t values;
  size_t value_scales;
  size_t bytes;  // of the block
};

// Static: else the linker might keep one instruction set's copy for the whole program.
static constexpr size_t KvRowValues(size_t head_size) { return (head_size + 15) / 16 * 16; }

// `type`: kF32, kBf16, kF16 or kI8.
static constexpr KvLayout KvLayoutOf(numbers::DType type, size_t head_size) {
  KvLayout to = {};
  to.lane_values = type == numbers::DType::kBf16 ? 2 : 1;
  to.lane_bytes = type == numbers::DType::kF16 ? 2 : (type == numbers::DType::kI8 ? 1 : 4);
  to.row_values = KvRowValues(head_size);
  const size_t scales = type == numbers::DType::kI8 ? kKvBlock * sizeof(float) : 0;
  to.key_scales = head_size / to.lane_values * kKvBlock * to.lane_bytes;
  to.values = to.key_scales + scales;
  to.value_scales = to.values + kKvBlock / to.lane_values * to.row_values * to.lane_bytes;
  to.bytes = to.value_scales + scales;
  return to;
}
static constexpr size_t KvBlockBytes(numbers::DType type, size_t head_size) {
  return KvLayoutOf(type, head_size).bytes;
}

// One sequence's keys and values, of one layer and one KV head.
struct KvView {
  numbers::DType type = numbers::DType::kBf16;
  int32_t head_size = 0;
  uint8_t* base = nullptr;             // block 0 of the pool, this layer and head; 64-byte aligned
  size_t block_stride = 0;             // bytes from one block of this layer and head to the next
  const int32_t* block_ids = nullptr;  // block i holds positions [32 i, 32 i + 32)
};

// Writes keys and values of `rows` tokens from first_position on. The token at the beginning of a
// block sets the rest of it to 0.
struct AppendTask {
  KvView kv;
  const float* k = nullptr;  // [rows, stride]: the head's columns of the first token
  const float* v = nullptr;
  size_t stride = 0;
  int32_t first_position = 0;
  size_t rows = 0;
};

// What a row and head found in a chunk: the largest score and the sum of e^(score - max). A sum of
// 0 means that no key was seen.
struct ScorePart {
  float max = 0;
  float sum = 0;
};

// Query heads that share a KV head, of neighbouring positions, over the keys of one chunk. Row r
// sees keys up to its own position first_position + r, or up to `length` where that is given; with
// a window only keys less than `window` away. Lines are (row, head) pairs, heads of a row side by
// side.
struct AttendTask {
  KvView kv;
  const float* q = nullptr;  // [rows, q_stride]: [heads, head_size] of a row, rotated
  size_t q_stride = 0;
  size_t rows = 0;
  size_t heads = 0;
  int32_t first_position = 0;
  size_t chunk = 0;             // keys [chunk * kKvChunk, (chunk + 1) * kKvChunk)
  float scale = 1;              // of the scores
  float soft_cap = 0;           // score = cap tanh(score / cap); 0: none
  int32_t window = 0;           // 0: none
  int32_t length = 0;           // of the sequence, where queries see the keys after them; else 0
  ScorePart* scores = nullptr;  // [lines]
  float* parts = nullptr;       // [lines, KvRowValues(head_size)]: sums of e^(score - max) value
  float* scratch = nullptr;     // attend_scratch_floats floats, 64-byte aligned
  // What this thread attends to next, or null: those blocks are fetched meanwhile. Of it only kv,
  // chunk, first_position, rows, window and length are read.
  const AttendTask* next = nullptr;
};

// Adds the next chunk's parts to what the chunks before it gave, line by line. A line whose sum is
// 0 holds nothing yet; its `sums` need not be set.
struct JoinTask {
  size_t lines = 0;
  int32_t head_size = 0;
  ScorePart* scores = nullptr;  // [lines]
  float* sums = nullptr;        // [lines, KvRowValues(head_size)]
  const ScorePart* chunk_scores = nullptr;
  const float* chunk_parts = nullptr;
};

// out[row, head] = sums / sum.
struct FinishTask {
  size_t rows = 0;
  size_t heads = 0;
  int32_t head_size = 0;
  const ScorePart* scores = nullptr;  // [rows, heads]
  const float* sums = nullptr;        // [rows, heads, KvRowValues(head_size)]
  float* out = nullptr;               // [rows, out_stride]: [heads, head_size] of a row
  size_t out_stride = 0;
};

// In place, each head of each row by itself: RMS norm if there is a gamma, then the first rope_size
// dimensions rotated if there are tables, row r by the angles of position first_position + r.
struct HeadTask {
  float* x = nullptr;  // [rows, stride]: [heads, head_size] of a row
  size_t stride = 0;
  size_t rows = 0;
  size_t heads = 0;
  int32_t head_size = 0;
  const float* gamma = nullptr;  // [head_size], or null
  float epsilon = 0;
  const float* rope_cos = nullptr;  // [positions, rope_size / 2], or null
  const float* rope_sin = nullptr;
  int32_t rope_size = 0;
  bool rope_interleaved = false;  // pairs (2i, 2i + 1) rather than (i, i + rope_size / 2)
  int32_t first_position = 0;
};

}  // namespace penstock::cpu
