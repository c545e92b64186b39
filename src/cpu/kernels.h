// The table of kernels one instruction set offers. Kernels are single-threaded, take raw pointers
// and shapes, allocate nothing; cpu_ops.cc and gemm_ops.cc spread them over threads.
//
// Words. A GEMM's operands are rows of 32-bit words, each of 1 f32, 2 bf16 or 4 int8 values of
// neighbouring k (the last one zero-padded), so that one tile serves all types. The layout is the
// same for every instruction set except for the width of a panel.
//
// Packed weights. A [out, in] matrix is cut into panels of `panel` output columns (the last one
// zero-padded); a panel is [words][panel], so that the GEMM tile reads it front to back:
//
//   panel 0: word 0 of w[0], w[1], ..., w[panel-1] | word 1 of w[0], ... | ...
//
// Packed rows. x as words, rows RowStride words apart: an odd number of cache lines. At x's own
// stride, often a multiple of 2 KB, a tile's rows would fall into few of the L1's 64 sets and push
// each other out.
//
// int8. k is cut into groups of kScaleGroup. In each, a row of x is u8 with a scale and a zero
// point of its own, found from that row alone: x = scale (q - zero), q in 0 .. 255; a column of the
// weights is s8 with a scale: w = scale q, q in -127 .. 127. Sets with `signed_rows` take 128 from q
// and zero, which changes no sum. A group's products are summed in s32 from -zero * (sum of the
// column's q) on, exactly; the groups' sums are scaled and added in f32.
// With one scale for all of k instead, a few large values in a row of activations cost the others
// their precision (MiniLM-L6: cosine to f32 0.9969 rather than 0.9992). For the same reason x may
// be multiplied by a factor for each column first and the weights' column divided by it: large
// columns give part of their size to the weights, which have precision to spare (SmoothQuant, Xiao
// et al., 2022; MiniLM-L6: 0.99951 rather than 0.99912 over 5,000 passages).
//
// Order of additions. A result of a GEMM is one chain of additions over k from 0 up, whatever
// tile computes it, so a row's bits do not depend on its neighbours. In bf16 a tile unit
// sums 16 words in an order of its own before each addition, and ARM's dots round to odd.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/kv_layout.h"
#include "numbers/dtype.h"
#include "program/op_kinds.h"

namespace penstock::cpu {

// Extensions of a processor that kernels use, as bits. Each implies those that the compiler flags
// of its kernels name besides.
enum Feature : uint32_t {
  kAvx2 = 1 << 0,  // and FMA, F16C
  kAvxVnni = 1 << 1,
  kAvx512 = 1 << 2,  // F, BW, DQ and VL
  kAvx512Vnni = 1 << 3,
  kAvx512Bf16 = 1 << 4,
  kNeon = 1 << 5,
  kI8mm = 1 << 7,  // and BF16 of ARM
  kAmx = 1 << 6,   // TILE, INT8 and BF16, and the permission to use them (see amx.h)
};

// May alias floats, bf16 or bytes in memory.
typedef uint32_t __attribute__((__may_alias__)) Word;
typedef uint16_t __attribute__((__may_alias__)) Half;

constexpr size_t kScaleGroup = 128;
constexpr size_t kLineWords = 16;

// Static: else the linker might keep one instruction set's copy for the whole program.
static constexpr size_t WordValues(numbers::DType dtype) {
  return dtype == numbers::DType::kF32 ? 1 : (dtype == numbers::DType::kBf16 ? 2 : 4);
}
static constexpr size_t RowWords(numbers::DType dtype, size_t in) {
  return (in + WordValues(dtype) - 1) / WordValues(dtype);
}
static constexpr size_t RowStride(numbers::DType dtype, size_t in) {
  return ((RowWords(dtype, in) + kLineWords - 1) / kLineWords | 1) * kLineWords;
}
static constexpr size_t ScaleGroups(numbers::DType dtype, size_t in) {
  return dtype == numbers::DType::kI8 ? (in + kScaleGroup - 1) / kScaleGroup : 0;
}

// Quantisation of one group of an int8 row.
struct RowScale {
  float scale = 0;
  int32_t zero = 0;
};

// Columns of rows, from a multiple of kScaleGroup on, as words.
struct PackRowsTask {
  numbers::DType dtype = numbers::DType::kF32;
  const float* x = nullptr;  // [rows, x_stride]
  size_t x_stride = 0;
  size_t rows = 0;
  size_t columns = 0;
  const float* factors = nullptr;  // [columns] that x is multiplied by, or null; int8 only
  Word* words = nullptr;           // [rows, stride]: the first column's
  size_t stride = 0;               // RowStride of the whole rows
  RowScale* scales = nullptr;      // [rows, scale_stride]; int8 only
  size_t scale_stride = 0;         // ScaleGroups of the whole rows
};

// y[rows, cols] = activation(x[rows, in] W^T + bias) for neighbouring panels of W; with `multiply`,
// that times what y held.
struct GemmTask {
  numbers::DType dtype = numbers::DType::kF32;
  const Word* x = nullptr;             // [rows][RowStride]
  const RowScale* x_scales = nullptr;  // [rows][ScaleGroups]; int8 only
  const Word* panels = nullptr;        // [panel_count][RowWords][panel]
  const float* scales = nullptr;       // [panel_count][ScaleGroups][panel]; int8 only
  const int32_t* sums = nullptr;       // the same: minus the sums of the columns' q
  const float* bias = nullptr;         // [panel_count * panel], or null
  float* y = nullptr;                  // [rows, y_stride], the columns of the first panel
  size_t rows = 0;
  size_t in = 0;
  // f32: the words of k that are added to y, which holds the sums of those before. The bias and the
  // activation come with the last ones. Not with `multiply`.
  size_t begin_word = 0;
  size_t end_word = SIZE_MAX;  // at most RowWords
  size_t panel_count = 0;
  size_t cols = 0;  // valid columns; the last panel may have fewer than `panel`
  size_t y_stride = 0;
  program::Activation activation = program::Activation::kNone;
  bool multiply = false;  // not with an activation
  // int8 on a tile unit: fewer rows than this are multiplied by vectors, to the same bits.
  size_t tile_rows_min = 1;
  // The next panel of this thread, from its first word to be added, prefetched into its L2
  // meanwhile; or null.
  const Word* next = nullptr;
};

// Quantisation of 32 values of a row: x = scale (q - zero).
struct BlockScale {
  float scale = 0;
  float sum = 0;  // scale times the sum of q - zero
  int16_t zero = 0;
  int16_t steps = 0;  // the sum of q - zero
};

// Rows x to what block_gemm reads (see block_layout.h).
struct PackBlockRowsTask {
  numbers::DType dtype = numbers::DType::kI8;
  const float* x = nullptr;  // [rows, x_stride]
  size_t x_stride = 0;
  size_t rows = 0;
  size_t in = 0;
  Word* packed = nullptr;  // BlockRowsWords: of all rows
  // The rows that are packed: of these tiles of BlockRowTiles.
  size_t first_tile = 0;
  size_t tiles = 0;
  size_t tile_rows_min = 1;  // as of the BlockGemmTask
};

// As GemmTask, over neighbouring panels of GGUF blocks.
struct BlockGemmTask {
  numbers::DType stored = numbers::DType::kF32;  // one of kStoredTypes
  // Of both operands: kI8 (codes as they are by u8 rows; not of kF32, kF16, kBf16), kBf16 or kF32.
  numbers::DType dtype = numbers::DType::kI8;
  const Word* x = nullptr;          // packed by pack_block_rows, all `rows` at once
  const uint8_t* panels = nullptr;  // [panel_count][BlockPanelBytes]
  const float* bias = nullptr;      // [panel_count * panel], or null
  float* y = nullptr;               // [rows, y_stride], the columns of the first panel
  size_t rows = 0;
  size_t in = 0;
  size_t panel_count = 0;
  size_t cols = 0;  // valid columns; the last panel may have fewer than `panel`
  size_t y_stride = 0;
  program::Activation activation = program::Activation::kNone;
  bool multiply = false;            // y times the product; not with an activation
  const float* residual = nullptr;  // [rows, y_stride], added last; may be y; or null
  void* scratch = nullptr;          // kBlockScratchBytes, 64-byte aligned
  // int8 on a tile unit: fewer rows than this are multiplied by vectors, to the same bits.
  size_t tile_rows_min = 1;
  const uint8_t* next = nullptr;  // what this thread reads next, prefetched; or null
};

// Scale and shift of a layer norm, [width] each; beta may be null. `gamma` null: no norm at all.
struct NormWeights {
  const float* gamma = nullptr;
  const float* beta = nullptr;
  float epsilon = 0;
};

// x[t] = norm(words[id] + positions[position] + types[type id]).
struct EmbedTask {
  const int32_t* ids = nullptr;           // [tokens]
  const int32_t* type_ids = nullptr;      // [tokens], or null: all 0
  const int32_t* position_ids = nullptr;  // [tokens], or null where positions is null
  const float* words = nullptr;           // [vocab, width]
  const float* positions = nullptr;       // [rows, width], or null
  const float* types = nullptr;           // [types, width], or null
  int32_t width = 0;
  NormWeights norm;
};

struct AttentionTask {
  numbers::DType dtype = numbers::DType::kF32;  // of the two GEMMs: kF32 or kBf16
  const float* q = nullptr;  // [length, stride]: the head's columns of the first token
  const float* k = nullptr;
  const float* v = nullptr;
  float* out = nullptr;  // [query_end - query_begin, out_stride]
  size_t stride = 0;
  size_t out_stride = 0;
  int32_t length = 0;
  int32_t query_begin = 0;  // tokens to compute
  int32_t query_end = 0;
  int32_t head_size = 0;
  float scale = 1;
  const float* rope_cos = nullptr;  // [positions, rope_size / 2] or null
  const float* rope_sin = nullptr;
  int32_t rope_size = 0;
  bool rope_interleaved = false;
  const float* relative_bias = nullptr;  // this head's row, centre at [bias_reach]; or null
  int32_t bias_reach = 0;
  int32_t window = 0;  // 0: all keys
  float* scratch =
      nullptr;  // attention_scratch_floats(dtype, length, head_size) floats, 64-byte aligned
};

struct Kernels {
  const char* name;      // as PENSTOCK_CPU_ISA has it: "avx512bf16"
  uint32_t needs;        // Features
  bool multiplies_bf16;  // in the processor; else bf16 is widened first
  int32_t panel;         // columns of a weight panel
  int32_t tile_rows;     // rows a GEMM tile works on at once
  int32_t coarse_rows;   // the same in bf16 and int8; more than tile_rows on a tile unit
  bool signed_rows;      // packed int8 rows are s8

  // An int8 group with a NaN or an infinity has the scale NaN: all of its row's results are NaN.
  void (*pack_rows)(const PackRowsTask& task);
  void (*gemm)(const GemmTask& task);
  // The multiply-adds of `gemm` on registers alone, in as many independent sums as its tile has:
  // the processor's arithmetic peak. Returns the number of operations in `steps`.
  double (*peak)(numbers::DType dtype, size_t steps);
  // y[rows, width] = norm(x + residual); `sum` takes the sum before the norm; sum and residual may
  // be null. Any of the four may be the same array.
  void (*add_norm)(const float* x, const float* residual, size_t rows, size_t width,
                   const NormWeights& norm, float* sum, float* y);
  // x[token] = norm(words[id] + positions + types) for tokens [begin, end).
  void (*embed)(const EmbedTask& task, size_t begin, size_t end, float* x);
  // Pools rows [skip, tokens) of one sequence; skip < tokens.
  void (*pool)(const float* x, size_t skip, size_t tokens, size_t width, program::Pooling pooling,
               float* out);
  void (*attention)(const AttentionTask& task);
  size_t (*attention_scratch_floats)(numbers::DType dtype, size_t length, size_t head_size);

  // Attention of decoders, over cached keys and values (see kv_layout.h).
  void (*append_kv)(const AppendTask& task);
  void (*attend_chunk)(const AttendTask& task);
  size_t (*attend_scratch_floats)(numbers::DType type, size_t head_size);
  void (*join_parts)(const JoinTask& task);
  void (*finish_lines)(const FinishTask& task);
  void (*prepare_heads)(const HeadTask& task);
  // y[rows, width] = x / sqrt(mean of x^2 + epsilon) * gamma; y may be x.
  void (*rms_norm)(const float* x, size_t rows, size_t width, const float* gamma, float epsilon,
                   float* y);
  // A group with a NaN or an infinity has the scale NaN, as in pack_rows.
  void (*pack_block_rows)(const PackBlockRowsTask& task);
  void (*block_gemm)(const BlockGemmTask& task);
};

// Null where the compiler did not build that instruction set. A set that only adds instructions to
// another (avxvnni, avx512vnni, avx512bf16, amx, i8mm) compiles what these change and hands the
// rest to that one: cpu/base-inl.h.
const Kernels* ScalarKernels();
const Kernels* Avx2Kernels();
const Kernels* AvxVnniKernels();
const Kernels* Avx512Kernels();
const Kernels* Avx512VnniKernels();
const Kernels* Avx512Bf16Kernels();
const Kernels* NeonKernels();
const Kernels* I8mmKernels();
const Kernels* AmxKernels();
// AmxKernels on a tile unit in C++: of the same bits, and slow.
const Kernels* EmulatedAmxKernels();
// What they change in the table of avx512bf16; the rest is empty.
const Kernels* AmxChanges();
const Kernels* EmulatedAmxChanges();

}  // namespace penstock::cpu
