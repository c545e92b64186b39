// GemmOps: linear layers, and the operations that begin or end with one, spread over threads.
//
// Rows are cut into blocks that fit half of a thread's L2, while panels of weights stream by: in f32
// a block's packed rows, since wider rows are multiplied by chunks of k; else its intermediate
// results, too. With at least as many blocks as threads, a thread takes a block through a whole
// operation; with fewer, threads share each block's panels. The bits are the same.
//
// Memory is allocated when weights are packed (Reserve), and none afterwards. Not thread-safe: one
// operation at a time.
//
// `next`: the matrix of the next operation, whose first panels are prefetched into L2; or null.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "cpu/huge_page_arena.h"
#include "cpu/kernels.h"
#include "cpu/packed_linear.h"
#include "program/op_kinds.h"
#include "threads/thread_pool.h"

namespace penstock::cpu {

// Rows a thread takes at a time in row-wise operations.
constexpr size_t kRowsPerTask = 16;

// See FeedForwardOp. Rows end to end; y may be x or residual, sum may be residual.
struct FeedForwardArgs {
  const float* x = nullptr;  // [rows, in->in()]
  size_t rows = 0;
  const PanelLinear* in = nullptr;
  const PanelLinear* gate = nullptr;
  program::Activation activation = program::Activation::kNone;
  const PanelLinear* out = nullptr;
  const float* residual = nullptr;  // [rows, out->out()]
  NormWeights norm;
  float* sum = nullptr;  // or null
  float* y = nullptr;
  const PanelLinear* next = nullptr;
};

// Epilogue of a GEMM: residual add and norm. y = norm(residual + x W^T), or without a norm the sum.
struct Epilogue {
  const float* residual = nullptr;  // or null
  NormWeights norm;
  float* sum = nullptr;  // takes the sum before the norm; or null. May be the residual.
  float* y = nullptr;    // may be the residual
};

class GemmOps {
 public:
  // `cache_bytes`: a thread's L2. The three outlive this.
  GemmOps(const Kernels* kernels, ThreadPool* pool, HugePageArena* arena, size_t cache_bytes);

  // Required for every matrix passed to the operations below.
  void Reserve(const PanelLinear& weight);

  // y = activation(x W^T + bias).
  void Linear(const float* x, size_t rows, const PanelLinear& weight,
              program::Activation activation, float* y, const PanelLinear* next = nullptr);
  void LinearNorm(const float* x, size_t rows, const PanelLinear& weight, const Epilogue& epilogue,
                  const PanelLinear* next = nullptr);
  void FeedForward(const FeedForwardArgs& args);

 private:
  // Rows cut into `count` blocks of about equal size, whole tiles each but the last.
  struct Blocks {
    size_t rows = 0;
    size_t count = 0;
    size_t rows_per_block = 0;
    size_t begin(size_t block) const { return block * rows_per_block; }
    size_t end(size_t block) const;
  };
  struct Output {
    float* y;
    size_t stride;
    program::Activation activation;
    bool multiply;
  };
  struct Panels {
    size_t begin;
    size_t end;
  };

  // Whole tiles of rows with `row_bytes` each that fit a block.
  size_t RowsPerBlock(numbers::DType dtype, size_t row_bytes) const;
  // `weight`: the first matrix. `row_bytes`: of a row's scratch, over the whole operation.
  Blocks SplitRows(const PanelLinear& weight, size_t rows, size_t row_bytes) const;
  // Rows of a GEMM's tile.
  size_t TileRows(numbers::DType dtype) const;
  // Number of groups of `unit` panels that each block's panels are cut into, so that every thread
  // has work.
  size_t SplitPanels(const Blocks& blocks, const PanelLinear& weight, size_t unit) const;
  // The first panel of the task that follows task `index` of `count` on the same thread, if threads
  // take tasks in turn: of `weight`, or after the last task of `next`.
  const Word* Ahead(const PanelLinear& weight, const PanelLinear* next, size_t index, size_t count,
                    size_t groups, size_t unit) const;

  // The number of chunks of k in which packed rows are multiplied, so that one of all rows stays in
  // the cache.
  size_t Chunks(numbers::DType dtype, size_t rows, size_t words, bool multiply) const;
  void Gemm(const PackedRows& x, size_t rows, const PanelLinear& weight, Panels panels,
            const Output& output, const Word* next) const;
  // Packs x[rows, in] for all threads.
  void PackShared(const float* x, size_t rows, const PackedRows& to);
  // y = activation(x W^T + bias): panels of a block shared by the threads.
  void LinearShared(const PackedRows& x, const Blocks& blocks, const PanelLinear& weight,
                    program::Activation activation, float* y, const PanelLinear* next);
  // Columns of the feed-forward's inner rows, packed into `inner`. `strip`: rows x kScaleGroup.
  void Inner(const FeedForwardArgs& args, const PackedRows& x, size_t rows, Panels panels,
             const PackedRows& inner, float* strip, const Word* next) const;
  void FeedForwardShared(const FeedForwardArgs& args, const Blocks& blocks);
  // Epilogue of rows [begin, end) of x W^T; `product` is row `begin`.
  void FinishRows(const float* product, size_t begin, size_t end, size_t width,
                  const Epilogue& epilogue) const;
  // Epilogue of all rows, spread over the threads.
  void FinishShared(const float* product, size_t rows, size_t width, const Epilogue& epilogue);

  const Kernels* kernels_;
  ThreadPool* pool_;
  HugePageArena* arena_;
  size_t block_bytes_;
  size_t tile_rows_min_;  // see GemmTask
  // Scratch of each thread, and scratch that threads share.
  std::vector<std::unique_ptr<AlignedBuffer>> scratch_;
  std::unique_ptr<AlignedBuffer> shared_;
};

}  // namespace penstock::cpu
