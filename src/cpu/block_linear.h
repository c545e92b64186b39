// A linear layer whose weights stay in GGUF blocks: repacked into panels when a model loads (see
// block_layout.h), read by all threads after. No larger than in the file, but for the columns that
// pad the last panel.
//
// A step is run by threads that each take a range of panels, without waiting for each other inside
// the layer and without allocating:
//
//   linear.PackRows(x, stride, rows, packed);   // by one thread, by each for itself, or in parts
//   linear.Run(run, first_panel, panel_count);  // by each thread
//
// The bits of a row depend neither on the other rows nor on how panels are shared out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"
#include "cpu/block_layout.h"
#include "cpu/block_panel.h"
#include "cpu/huge_page_arena.h"
#include "cpu/kernels.h"
#include "gate/load_turn.h"
#include "program/backend.h"
#include "program/program.h"
#include "threads/thread_pool.h"

namespace penstock::cpu {

// What a layer does to its rows: y = activation(x W^T + bias), or with `multiply` that times y, or
// with `residual` that plus residual; at most one of the three.
struct BlockRun {
  const Word* x = nullptr;  // by PackRows, all `rows` at once
  size_t rows = 0;
  float* y = nullptr;  // [rows, y_stride], the matrix's first column
  size_t y_stride = 0;
  program::Activation activation = program::Activation::kNone;
  bool multiply = false;
  const float* residual = nullptr;  // [rows, y_stride]; may be y; or null
  void* scratch = nullptr;          // this thread's own, kBlockScratchBytes, 64-byte aligned
  const uint8_t* next = nullptr;    // what the thread reads next: panel() of another layer; or null
};

class BlockLinear final : public program::PackedLinear {
 public:
  // As Backend::Pack, of parts of one type, one of kStoredTypes; they are not read after this
  // returns. Panels are repacked by all threads of the pool; with options.mapped_file, their rows'
  // pages are read before and given back as they are done. With `turn`, in slices that each
  // begin and end a work of it; it is given back where a disk has to be read.
  //
  // kInvalidArgument: parts that differ, no rows, columns that are no whole blocks, a bias of
  // another size or for some parts only. kUnsupported: a type that is not one of kStoredTypes, or a
  // bias that ConvertToF32 does not read; kI8 of a type without blocks or with column factors.
  static Expected<std::unique_ptr<BlockLinear>> Pack(std::span<const program::LinearRows> parts,
                                                     const program::PackOptions& options,
                                                     const Kernels* kernels, ThreadPool* pool,
                                                     HugePageArena* arena,
                                                     gate::LoadTurn* turn = nullptr);

  numbers::DType stored() const { return shape_.stored; }  // of the weights
  uint64_t bytes() const override;
  size_t panels() const { return panels_; }
  const uint8_t* panel(size_t index) const;
  // Of a panel; all panels together are read once a step.
  size_t panel_bytes() const { return panel_bytes_; }

  // Row `row` of the weights, to[in()]: what ConvertToF32 makes of the row that was packed.
  void ReadRow(size_t row, float* to) const;

  // Words of `rows` packed rows.
  size_t PackedWords(size_t rows) const { return BlockRowsWords(dtype(), shape_.in, rows); }
  // Tiles that `rows` rows are packed in. Threads may share them out.
  size_t RowTiles(size_t rows) const;
  // x[rows, x_stride] into `packed`, PackedWords(rows): all of it, or the rows of `tiles` tiles
  // from `first_tile` on.
  void PackRows(const float* x, size_t x_stride, size_t rows, Word* packed) const {
    PackRows(x, x_stride, rows, packed, 0, RowTiles(rows));
  }
  void PackRows(const float* x, size_t x_stride, size_t rows, Word* packed, size_t first_tile,
                size_t tiles) const;

  void Run(const BlockRun& run, size_t first_panel, size_t panel_count) const;

 private:
  BlockLinear(std::span<const program::LinearRows> parts, numbers::DType dtype,
              const Kernels* kernels, HugePageArena* arena);
  // Panels [first, last).
  void PackPanels(std::span<const program::LinearRows> parts, const program::PackOptions& options,
                  size_t first, size_t last, ThreadPool* pool);
  void PackPanel(std::span<const program::LinearRows> parts, size_t index);

  const Kernels* kernels_;
  size_t tile_rows_min_;  // see BlockGemmTask
  BlockPanelShape shape_;
  size_t columns_;  // out()
  size_t panels_;
  size_t panel_bytes_;
  HugePageArena::Block weights_;
  HugePageArena::Block bias_;  // [panels_ * shape_.width], or empty
};

}  // namespace penstock::cpu
