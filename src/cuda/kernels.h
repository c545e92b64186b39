// What kernels take, and their names: read by the host, by the kernels and by tools.
//
// Pointers are into the device's memory. Counts lie there too: a graph that was captured once runs
// batches of any size up to its grid, and blocks beyond the count leave.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/tile_map.h"
#include "program/op_kinds.h"
#include "sample/draw_best.h"

namespace penstock::cuda {

// Epilogue of a product: y = activation(p + bias) + residual. With a gate, which has pieces of its
// own: y = activation(p + bias) (p_up + bias_up).
//
// Operands in f16 of programs with a cache are scaled, each row of x and of w by a power of two
// (OperandScaleOf): p is multiplied by what was divided by.
struct Epilogue {
  const float* row_scales;  // [rows], of x; null: operands are not scaled
  const float* scales;      // [features], of w
  const float* scales_up;   // the same, with a gate
  const float* bias;        // [features]; null: none
  const float* bias_up;     // the same, with a gate
  const float* residual;    // [rows, features]; null: none
  float* y;                 // [rows, features], may be the residual; null: not written
  uint16_t* y16;            // [rows, stride16] operands, 0 from `features` on; null: not written
  int features;
  int stride16;
  program::Activation activation;
  bool half;  // the operands are f16, else bf16
};

// How weights of GGUF's blocks lie (block_weights.h): codes of 4 or 8 bits; a scale for 32 of them,
// or for 16 (short), with an offset or without.
enum class BlockForm : int { kNone, kCodes4, kCodes8, kCodes8Short, kCodes8Offsets };

// A matrix of blocks as pieces.
struct UnpackArgs {
  const std::byte* blocks;
  uint16_t* to;
  int pieces;
};

struct GemmArgs {
  const uint16_t* x;   // [rows, stride] operands
  const uint16_t* w;   // pieces of [features, k], or blocks
  const uint16_t* up;  // the same, of the matrix that is multiplied beside it; null: no gate
  const int* rows;
  int stride;  // values between rows of x, a multiple of 8
  int k;       // a multiple of 64
  Epilogue to;
};

struct GemmWgmmaArgs {
  TileMap x;  // [rows of the grid, stride] operands; tiles as high as the kernel's
  GemmArgs gemm;
};

// One more matrix for the same x, by thread blocks from `first` to the next part's (ascending). The
// rest of the epilogue is that of gemm.to.
struct GemmPart {
  const uint16_t* w;  // null: this part is unused
  const float* scales;
  const float* bias;
  float* y;
  int features;
  int first;
};
struct GemmF32Args {
  const float* x;  // [rows, k]
  const float* w;  // [features, k]
  const int* rows;
  int k;
  bool multiply;  // y is multiplied by the result, instead of written
  Epilogue to;    // bias_up: not used
};

// 64 queries of a sequence, or fewer.
struct AttentionTile {
  int first;   // row of the sequence's first token
  int length;  // tokens of the sequence
  int query;   // the first query, within the sequence
  int count;   // queries, at most 64
  int out;     // row of the first query's result
};

// [heads, 2 * reach + 1]: what is added to the score of key j for query i, in column
// clamp(j - i, -reach, reach) + reach.
struct RelativeBias {
  const float* table;
  int reach;
};

struct AttentionArgs {
  const uint16_t* qkv;         // [rows, stride] operands: q, k, v, each of all heads
  uint16_t* y;                 // [rows, y_stride] operands of the same type, 0 behind the heads
  const AttentionTile* tiles;  // one for each block row
  const int* tile_count;
  RelativeBias bias;  // of kernels with one
  int stride;         // values, a multiple of 8
  int y_stride;       // values, even
  int heads;
  int head_size;  // even; heads of qkv are as wide as the kernel's, zeros behind it
  int window;     // keys nearer than this are seen; 0: all
  float scale;
};

struct AttentionF32Args {
  const float* qkv;  // [rows, 3 * heads * head_size]
  float* y;          // [rows, heads * head_size]; null: not written
  uint16_t* y16;     // [rows, stride16] operands; null: not written
  const AttentionTile* tiles;
  const int* tile_count;
  RelativeBias bias;  // table null: none
  int heads;
  int head_size;  // at most kHeadSizeMax
  int stride16;
  int window;
  float scale;
  bool half;
};
inline constexpr int kHeadSizeMax = 256;

// y = n = (x - mean) / sqrt(variance + epsilon) gamma + beta, or with a residual y = residual +
// factor n.
struct NormArgs {
  const float* x;         // [rows, width]
  const int* picks;       // [rows]: the row of x that is read; null: each its own
  const float* gamma;     // [width]; null: n is x
  const float* beta;      // [width]; null: none
  const float* residual;  // [rows, width]; null: none
  float* y;               // [rows, width], may be x or the residual; null: not written
  uint16_t* y16;          // [rows, stride16] operands, 0 from `width` on; null: not written
  float* scales;          // [rows]: y16 is y divided by it; null: y16 is not scaled
  const int* rows;
  int width;
  int stride16;
  float epsilon;
  float factor;
  bool half;
  bool rms;  // nothing is subtracted
};

// A gemm_fused kernel takes at most kFusedRows rows, with rows times k at most kFusedValues.
inline constexpr int kFusedRows = 4, kFusedValues = 16384;

// Products of few rows.
struct GemmNarrowArgs {
  GemmArgs gemm;
  GemmPart more[2];
  NormArgs norm;       // of gemm_fused: makes the operands, not gemm.x; stride16 = gemm.k
  bool early_weights;  // loaded while the kernel before runs; false where that unpacks them
};

struct EmbedArgs {
  const int* ids;           // [rows]
  const int* sources;       // [rows]: index in `drawn` of the row's id; -1, or null: it is in ids
  const int* drawn;         // [picks]: tokens that the step before drew
  const int* positions;     // [rows]; not read where places is null
  const int* types;         // [rows]; null: all 0
  const float* words;       // [vocabulary, width]; null where pieces or blocks are set
  const uint16_t* pieces;   // the same in pieces of operands
  const std::byte* blocks;  // the same in blocks
  const float* scales;      // [vocabulary], of the pieces; null: they are not scaled
  const float* places;      // [positions, width]; null: none
  const float* kinds;       // [types, width]; null: none
  float factor;             // of the words
  BlockForm form;           // of the blocks
  bool half;                // the pieces are f16, else bf16
  NormArgs norm;            // x: what is embedded, [rows, width]; written first
};

// q and k rotated, and all heads as attention wants them: `depth` wide, zeros from head_size on.
struct HeadsArgs {
  const float* x;     // [rows, 3 * heads * head_size]
  float* y;           // [rows, 3 * heads * depth], not x; null: not written
  uint16_t* y16;      // the same as operands; null: not written
  const int* places;  // [rows], of each token in its sequence
  const float* cos;   // [positions, rope_size / 2]; null: nothing is rotated
  const float* sin;
  const int* rows;
  int heads;
  int head_size;
  int depth;
  int rope_size;
  bool interleaved;  // pairs (2i, 2i + 1), else (i, i + rope_size / 2)
  bool half;
};

struct PoolArgs {
  const float* x;      // [rows, width]
  const int* offsets;  // [sequences + 1]
  const int* skip;     // [sequences]: leading rows that are left out
  const int* sequences;
  float* y;  // [sequences, y_stride], from the column on
  int width;
  int y_stride;
  program::Pooling pooling;
};

// Keys and values of a layer, in blocks of kCacheTokens tokens. A block has, for each kv head, keys
// [head_size][kCacheTokens], one column a token, then values [kCacheTokens][head_size]; or both as
// the fragments of tensor cores: tiles of 16 x 16, of keys [tokens / 16][head_size / 16], a row a
// token, of values [head_size / 16][tokens / 16], a column a token, and a tile [lanes][8].
inline constexpr int kCacheTokens = 32;
struct LayerCache {
  std::byte* blocks;    // this layer's part of block 0
  int64_t block_bytes;  // from one block to the next
  const int* tables;    // blocks of the sequences
  const int* first;     // [sequences]: where a sequence's begin in `tables`
  int kv_heads;
  int head_size;  // even, at most kHeadSizeMax
  bool fragments;
};

// q and k normed, head by head, and rotated; k and v appended to the cache.
struct KvHeadsArgs {
  const float* q;  // [rows, heads * head_size]
  const float* k;  // [rows, kv_heads * head_size]
  const float* v;
  float* rotated;        // [rows, heads * head_size]: q, not in place
  const float* q_gamma;  // [head_size]; null: no norm
  const float* k_gamma;
  const float* cos;  // [positions, rope_size / 2]; null: nothing is rotated
  const float* sin;
  const float* long_cos;  // of sequences that are long; null: the same
  const float* long_sin;
  const int* rows;
  const int* positions;  // [rows], of each token in its sequence
  const int* sequences;  // [rows]
  const int* is_long;    // [sequences]
  LayerCache cache;
  int heads;
  int rope_size;
  float q_epsilon;
  float k_epsilon;
  bool interleaved;
};

// Rows of one sequence that follow each other.
struct PagedTile {
  int row;
  int count;
  int sequence;
  int chunk;  // the chunk of keys that is attended to; -1: all of them
};
inline constexpr int kChunkKeys = 256;

// Which keys a row of a step sees.
struct PagedShape {
  const int* positions;  // [rows]
  const int* sequences;  // [rows]
  const int* lengths;    // [sequences], new tokens included
  const int* parts;      // [rows]: the row's first part, that of chunk 0; of split attention
  int heads;
  int head_size;
  int window;  // keys nearer than this are seen; 0: all
  bool causal;
};

// Attention to the keys in heads.cache, by queries in heads.rotated. With `appends` (one row a
// sequence) q is normed and rotated where it is read, and the thread block whose chunk has the newest
// key appends it.
struct PagedArgs {
  KvHeadsArgs heads;
  bool appends;
  float* y;  // [rows, heads * head_size]; split: [parts, units, heads, head_size + 2]
  const PagedTile* tiles;
  const int* tile_count;
  PagedShape shape;
  float scale;
  float soft_cap;  // scores become cap * tanh(score / cap); 0: as they are
};

// Joins what was found in the chunks of each row. `units`: parts of a chunk with equally many keys;
// those of one place in all chunks are joined in order, then the places.
struct PagedJoinArgs {
  const float* parts;
  float* y;  // [rows, heads * head_size]
  const int* rows;
  PagedShape shape;
  int units;
};

// The best logits of a row, in order: the larger first, of equal ones the lower id.
inline constexpr int kBestLogits = 64;
struct BestLogits {
  struct One {
    float logit;
    int id;
  } best[kBestLogits];
  int bad_id;  // the lowest id whose logit is not a number, or beyond sample::kLogitMax; -1: none
  int drawn;   // the token that was drawn; -1: none was
};
// Of 256 neighbouring logits.
struct LogitSums {
  float max;
  float sum;  // of exp(logit - max)
};
inline constexpr int kLogitsOfBlock = 256;
inline constexpr int kLogitBlocksMax = 2048;

struct LogitsArgs {
  float* logits;                  // [picks, vocabulary]: scaled and capped in place
  int* bad_ids;                   // [picks, blocks]: the lowest bad id of the block; INT_MAX: none
  std::byte* found;               // [picks]: a BestLogits each, then LogitSums [blocks]
  const int* wants;               // [picks]; 0: found, bad_ids and drawn are not written
  const sample::DrawRule* draws;  // [picks]; keep 0: none is drawn
  int* drawn;                     // [picks]: the token, which the next step embeds; -1: none
  const int* picks;               // their count
  int found_bytes;                // from one pick's to the next
  int vocabulary;
  int blocks;  // at most kLogitBlocksMax
  float scale;
  float soft_cap;  // 0: none
};

enum class KernelId : int {
#define PENSTOCK_KERNEL(name, args, ...) name,
#include "cuda/kernel_list.inc"
#undef PENSTOCK_KERNEL
  kCount,
};
inline constexpr size_t kKernels = static_cast<size_t>(KernelId::kCount);
inline constexpr size_t kArgsBytesMax = 320;

struct KernelRow {
  const char* name;
  int threads;  // of a block
  int shared_bytes;
  size_t args_bytes;
  int tile_rows;      // of a block; 0: its grid is another
  int tile_features;  // of a block of a product
  bool has_tile_map;  // its arguments begin with a TileMap
  bool is_narrow;     // they are GemmNarrowArgs
};
const KernelRow& RowOf(KernelId id);

}  // namespace penstock::cuda
