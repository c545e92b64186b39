// The table of kernels one instruction set offers. Kernels are single-threaded, take raw pointers
// and shapes, allocate nothing; cpu_backend.cc spreads them over threads.
//
// Packed weights. A [out, in] matrix is cut into panels of `panel` output columns (the last one
// zero-padded); a panel is [in][panel], so that the GEMM tile reads it front to back:
//
//   panel 0: k=0: w[0][0] w[1][0] ... w[panel-1][0] | k=1: w[0][1] ... | ...
//
// Order of additions. An element of a product is one chain of fused multiply-adds over k from 0
// up, whatever tile computes it, so a row's bits do not depend on its neighbours.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/backend.h"

namespace penstock::cpu {

enum class Isa { kScalar, kAvx2, kAvx512 };
const char* IsaName(Isa isa);  // "scalar", "avx2", "avx512"

// y[rows, cols] = activation(x[rows, in] W^T + bias) for neighbouring panels of W.
struct GemmTask {
  const float* x = nullptr;       // [rows, in]
  const float* panels = nullptr;  // [panel_count][in][panel]
  const float* bias = nullptr;    // [panel_count * panel], or null
  float* y = nullptr;             // [rows, y_stride], the columns of the first panel
  float* scratch = nullptr;       // gemm_scratch_floats(rows) floats, 64-byte aligned
  size_t rows = 0;
  size_t in = 0;
  size_t panel_count = 0;
  size_t cols = 0;  // valid columns; the last panel may have fewer than `panel`
  size_t y_stride = 0;
  Activation activation = Activation::kNone;
};

struct AttentionTask {
  const float* q = nullptr;  // [length, stride]: the head's columns of the first token
  const float* k = nullptr;
  const float* v = nullptr;
  float* out = nullptr;  // [length, out_stride]
  size_t stride = 0;
  size_t out_stride = 0;
  int32_t length = 0;
  int32_t head_size = 0;
  float scale = 1;
  const float* rope_cos = nullptr;  // [positions, rope_size / 2] or null
  const float* rope_sin = nullptr;
  int32_t rope_size = 0;
  bool rope_interleaved = false;
  const float* relative_bias = nullptr;  // this head's row, centre at [bias_reach]; or null
  int32_t bias_reach = 0;
  int32_t window = 0;        // 0: all keys
  float* scratch = nullptr;  // attention_scratch_floats(length, head_size) floats, 64-byte aligned
};

struct Kernels {
  Isa isa;
  int32_t panel;      // columns of a weight panel
  int32_t tile_rows;  // rows a GEMM tile works on at once

  void (*gemm_block)(const GemmTask& task);
  size_t (*gemm_scratch_floats)(size_t rows);
  // y[rows, width] = norm(x + residual); with `sum` the un-normed sum goes there; residual may be
  // null. Any of the four may be the same array.
  void (*add_norm)(const float* x, const float* residual, size_t rows, size_t width,
                   const NormWeights& norm, float* sum, float* y);
  // x[token] = norm(words[id] + positions + types) for tokens [begin, end).
  void (*embed)(const EmbedArgs& args, size_t begin, size_t end, float* x);
  void (*gate)(const float* x, size_t rows, size_t width, Activation activation, float* y);
  // Pools rows [skip, tokens) of one sequence; skip < tokens.
  void (*pool)(const float* x, size_t skip, size_t tokens, size_t width, Pooling pooling,
               float* out);
  void (*attention)(const AttentionTask& task);
  size_t (*attention_scratch_floats)(size_t length, size_t head_size);
};

// Null where the compiler did not build that instruction set.
const Kernels* ScalarKernels();
const Kernels* Avx2Kernels();
const Kernels* Avx512Kernels();

}  // namespace penstock::cpu
