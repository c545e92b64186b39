// A linear layer whose weights stay in GGUF blocks: repacked into panels when a model loads (see
// block_layout.h), read by all threads after. No larger than in the file, but for the columns that
// pad the last panel.
//
// A step is run by threads that each take a range of panels, without waiting for each other inside
// the layer and without allocating:
//
//   linear.PackRows(x, stride, rows, packed);   // by one thread, or by each for itself
//   linear.Run(run, first_panel, panel_count);  // by each thread
//
// The bits of a row depend neither on the other rows nor on how panels are shared out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "common/status.h"
#include "common/thread_pool.h"
#include "cpu/block_layout.h"
#include "cpu/huge_page_arena.h"
#include "cpu/kernels.h"
#include "cpu/packed_linear.h"

namespace penstock::cpu {

// [rows, columns] of a file: rows of blocks, end to end.
struct BlockMatrix {
  BlockType type = BlockType::kF32;
  int64_t rows = 0;
  int64_t columns = 0;
  const std::byte* data = nullptr;
};

// What a layer does to its rows: y = activation(x W^T + bias), or with `multiply` that times y, or
// with `residual` that plus residual; at most one of the three.
struct BlockRun {
  const Word* x = nullptr;  // by PackRows, all `rows` at once
  size_t rows = 0;
  float* y = nullptr;  // [rows, y_stride], the matrix's first column
  size_t y_stride = 0;
  Activation activation = Activation::kNone;
  bool multiply = false;
  const float* residual = nullptr;  // [rows, y_stride]; may be y; or null
  void* scratch = nullptr;          // this thread's own, kBlockScratchBytes, 64-byte aligned
  const uint8_t* next = nullptr;    // what the thread reads next: panel() of another layer; or null
};

class BlockLinear {
 public:
  // Parts have one type and as many columns, and stand one below the other; they are not read after
  // this returns. `bias`: for each output, or empty. Panels are repacked by all threads of the
  // pool.
  //
  // kInvalidArgument: parts that differ, no rows, or columns that are no whole blocks.
  // kUnsupported: kInt8 of a type without blocks.
  static Expected<std::unique_ptr<BlockLinear>> Pack(std::span<const BlockMatrix> parts,
                                                     std::span<const float> bias, BlockMode mode,
                                                     const Kernels* kernels, ThreadPool* pool,
                                                     HugePageArena* arena);

  size_t in() const { return in_; }
  size_t out() const { return out_; }
  BlockType type() const { return type_; }
  BlockMode mode() const { return mode_; }
  size_t panels() const { return panels_; }
  // Of the weights, read once a step.
  uint64_t bytes() const { return panels_ * panel_bytes_; }
  const uint8_t* panel(size_t index) const;

  // Words of `rows` packed rows.
  size_t PackedWords(size_t rows) const { return BlockRowsWords(mode_, in_, rows); }
  // x[rows, x_stride] into `packed`, PackedWords(rows).
  void PackRows(const float* x, size_t x_stride, size_t rows, Word* packed) const;

  void Run(const BlockRun& run, size_t first_panel, size_t panel_count) const;

 private:
  BlockLinear(std::span<const BlockMatrix> parts, std::span<const float> bias, BlockMode mode,
              const Kernels* kernels, HugePageArena* arena);

  const Kernels* kernels_;
  BlockType type_;
  BlockMode mode_;
  size_t in_;
  size_t out_;
  size_t panel_columns_;
  size_t panels_;
  size_t panel_bytes_;
  HugePageArena::Block weights_;
  HugePageArena::Block bias_;  // [panels_ * panel_columns_], or empty
};

}  // namespace penstock::cpu
