#include "cpu/gemm_ops.h"

#include <algorithm>

#include "base/int_math.h"
#include "cpu/amx.h"

namespace penstock::cpu {
namespace {

// A block has at most this many rows or, where that is more, this many tiles.
constexpr size_t kBlockRowsMax = 112;
constexpr size_t kBlockTilesMax = 8;
// Words of k in a chunk, at least: enough products for reading and writing the sums once more.
constexpr size_t kChunkWordsMin = 256;
// A task below this many multiply-adds is not worth handing to another thread (about 1 us).
constexpr size_t kTaskOpsMin = 64 << 10;
constexpr size_t kAlignment = 64;
constexpr size_t kPartsMax = 4;  // of a scratch
// A scratch is at most this many times the blocks' part of the L2: results pass through it once.
constexpr size_t kScratchBlocks = 8;

// Hands out the parts of a scratch.
class ScratchCarver {
 public:
  explicit ScratchCarver(const AlignedBuffer& memory)
      : next_(reinterpret_cast<char*>(memory.data())) {}
  PackedRows Rows(size_t rows, const PanelLinear& weight) {
    const size_t bytes = PackedRowBytes(weight.dtype(), static_cast<size_t>(weight.in()));
    return PackedRows(Take(rows * bytes), rows, weight);
  }
  float* Floats(size_t count) { return static_cast<float*>(Take(count * sizeof(float))); }

 private:
  void* Take(size_t bytes) {
    void* taken = next_;
    next_ += CeilDiv(bytes, kAlignment) * kAlignment;
    return taken;
  }
  char* next_;
};

const Word* FirstPanel(const PanelLinear* weight) {
  return weight == nullptr ? nullptr : weight->panel(0);
}

// f32 results are their own packed form; others pass through a strip of floats.
size_t StripFloats(numbers::DType dtype) { return dtype == numbers::DType::kF32 ? 0 : kScaleGroup; }

size_t Columns(const program::PackedLinear& weight) { return static_cast<size_t>(weight.out()); }
size_t InputBytes(const program::PackedLinear& weight) {
  return PackedRowBytes(weight.dtype(), static_cast<size_t>(weight.in()));
}

}  // namespace

GemmOps::GemmOps(const Kernels* kernels, ThreadPool* pool, HugePageArena* arena, size_t cache_bytes)
    : kernels_(kernels),
      pool_(pool),
      arena_(arena),
      block_bytes_(cache_bytes / 2),
      tile_rows_min_(TileRowsMin(*kernels)),
      scratch_(pool->threads()) {}

void GemmOps::Reserve(const PanelLinear& weight) {
  // A feed-forward has three matrices: twice the input and the output cover input, inner and output
  // rows. A block has one tile at least.
  const numbers::DType dtype = weight.dtype();
  const size_t input = InputBytes(weight);
  const size_t row = 2 * input + PackedRowBytes(dtype, Columns(weight));
  const size_t wanted = std::min(RowsPerBlock(dtype, input) * row, kScratchBlocks * block_bytes_);
  const size_t least = TileRows(dtype) * (2 * (input + Columns(weight) * sizeof(float)) +
                                          kScaleGroup * sizeof(float));
  const size_t floats =
      (std::max({block_bytes_, wanted, least}) + kPartsMax * kAlignment) / sizeof(float);
  const auto keep = [this](std::unique_ptr<AlignedBuffer>* buffer, size_t size) {
    if (*buffer != nullptr && (*buffer)->size() >= size) return;
    *buffer = std::make_unique<AlignedBuffer>(size, arena_);
  };
  for (std::unique_ptr<AlignedBuffer>& scratch : scratch_) keep(&scratch, floats);
  if (pool_->threads() > 1) keep(&shared_, floats * (pool_->threads() - 1));
}

size_t GemmOps::Blocks::end(size_t block) const {
  return std::min(rows, (block + 1) * rows_per_block);
}

size_t GemmOps::TileRows(numbers::DType dtype) const {
  return static_cast<size_t>(dtype == numbers::DType::kF32 ? kernels_->tile_rows
                                                           : kernels_->coarse_rows);
}

size_t GemmOps::RowsPerBlock(numbers::DType dtype, size_t row_bytes) const {
  const size_t tile = TileRows(dtype);
  const size_t most = std::max(kBlockTilesMax, kBlockRowsMax / tile);
  return std::clamp<size_t>(block_bytes_ / (row_bytes * tile), 1, most) * tile;
}

GemmOps::Blocks GemmOps::SplitRows(const PanelLinear& weight, size_t rows, size_t row_bytes) const {
  const numbers::DType dtype = weight.dtype();
  const size_t tile = TileRows(dtype);
  const size_t in_cache = dtype == numbers::DType::kF32 ? InputBytes(weight) : row_bytes;
  const size_t room = scratch_[0]->size() * sizeof(float) - kPartsMax * kAlignment;
  const size_t tiles_max =
      std::clamp<size_t>(room / (row_bytes * tile), 1, RowsPerBlock(dtype, in_cache) / tile);
  const size_t tiles = CeilDiv(rows, tile);
  size_t count = CeilDiv(tiles, tiles_max);
  // A whole number of rounds for the threads, so that none idles in the last one.
  if (count > 1) count = CeilDiv(count, pool_->threads()) * pool_->threads();
  const size_t per_block = std::max<size_t>(1, CeilDiv(tiles, std::max<size_t>(count, 1)));
  return {rows, CeilDiv(tiles, per_block), per_block * tile};
}

size_t GemmOps::SplitPanels(const Blocks& blocks, const PanelLinear& weight, size_t unit) const {
  const size_t ops =
      blocks.rows * static_cast<size_t>(weight.in()) * Columns(weight) / WordValues(weight.dtype());
  // Two groups per thread: the first to finish takes another.
  const size_t units = CeilDiv(weight.panels(), unit);
  const size_t wanted = std::clamp<size_t>(
      std::min(CeilDiv(2 * pool_->threads(), blocks.count), CeilDiv(ops, kTaskOpsMin)), 1, units);
  // More groups if they are then of equal size and every thread gets as many.
  for (size_t groups = wanted; groups <= std::min(units, 2 * wanted); ++groups) {
    if (units % groups == 0 && blocks.count * groups % pool_->threads() == 0) return groups;
  }
  return wanted;
}

const Word* GemmOps::Ahead(const PanelLinear& weight, const PanelLinear* next, size_t index,
                           size_t count, size_t groups, size_t unit) const {
  const size_t after = index + pool_->threads();
  const size_t units = CeilDiv(weight.panels(), unit);
  if (after < count) return weight.panel(units * (after % groups) / groups * unit);
  if (next == nullptr) return nullptr;
  return next->panel(next->panels() * (after - count) / pool_->threads());
}

size_t GemmOps::Chunks(numbers::DType dtype, size_t rows, size_t words, bool multiply) const {
  if (dtype != numbers::DType::kF32 || multiply) return 1;
  const size_t chunk = std::max<size_t>(kChunkWordsMin, block_bytes_ / (rows * sizeof(Word)));
  return CeilDiv(words, chunk);
}

void GemmOps::Gemm(const PackedRows& x, size_t rows, const PanelLinear& weight, Panels panels,
                   const Output& output, const Word* next) const {
  if (panels.begin >= panels.end || rows == 0) return;
  GemmTask task;
  weight.FillTask(panels.begin, panels.end - panels.begin, &task);
  task.x = x.words;
  task.x_scales = x.scales;
  task.rows = rows;
  task.y = output.y;
  task.y_stride = output.stride;
  task.activation = output.activation;
  task.multiply = output.multiply;
  task.tile_rows_min = tile_rows_min_;
  const size_t words = RowWords(weight.dtype(), task.in);
  const size_t chunks = Chunks(weight.dtype(), rows, words, output.multiply);
  for (size_t c = 0; c < chunks; ++c) {
    task.begin_word = words * c / chunks;
    task.end_word = words * (c + 1) / chunks;
    const bool last = c + 1 == chunks;
    task.next = last ? next : task.panels + task.end_word * static_cast<size_t>(kernels_->panel);
    kernels_->gemm(task);
  }
}

void GemmOps::FinishRows(const float* product, size_t begin, size_t end, size_t width,
                         const Epilogue& epilogue) const {
  const size_t at = begin * width;
  kernels_->add_norm(product, epilogue.residual == nullptr ? nullptr : epilogue.residual + at,
                     end - begin, width, epilogue.norm,
                     epilogue.sum == nullptr ? nullptr : epilogue.sum + at, epilogue.y + at);
}

void GemmOps::FinishShared(const float* product, size_t rows, size_t width,
                           const Epilogue& epilogue) {
  pool_->ParallelFor(CeilDiv(rows, kRowsPerTask), [&](size_t task, size_t) {
    const size_t begin = task * kRowsPerTask;
    FinishRows(product + begin * width, begin, std::min(rows, begin + kRowsPerTask), width,
               epilogue);
  });
}

void GemmOps::PackShared(const float* x, size_t rows, const PackedRows& to) {
  pool_->ParallelFor(CeilDiv(rows, kRowsPerTask), [&](size_t task, size_t) {
    const size_t begin = task * kRowsPerTask;
    kernels_->pack_rows(to.From(begin).Pack(x + begin * to.in, to.in,
                                            std::min(kRowsPerTask, rows - begin), 0, to.in));
  });
}

void GemmOps::LinearShared(const PackedRows& x, const Blocks& blocks, const PanelLinear& weight,
                           program::Activation activation, float* y, const PanelLinear* next) {
  const size_t groups = SplitPanels(blocks, weight, 1);
  const size_t tasks = blocks.count * groups;
  const size_t width = Columns(weight);
  pool_->ParallelFor(tasks, [&](size_t task, size_t) {
    const size_t begin = blocks.begin(task / groups);
    const size_t group = task % groups;
    const Panels panels = {weight.panels() * group / groups,
                           weight.panels() * (group + 1) / groups};
    const size_t column = panels.begin * static_cast<size_t>(kernels_->panel);
    Gemm(x.From(begin), blocks.end(task / groups) - begin, weight, panels,
         {y + begin * width + column, width, activation, false},
         Ahead(weight, next, task, tasks, groups, 1));
  });
}

void GemmOps::Linear(const float* x, size_t rows, const PanelLinear& weight,
                     program::Activation activation, float* y, const PanelLinear* next) {
  const size_t in = static_cast<size_t>(weight.in());
  const size_t width = Columns(weight);
  const Blocks blocks = SplitRows(weight, rows, InputBytes(weight));
  if (blocks.count < pool_->threads()) {
    const PackedRows packed = ScratchCarver(*shared_).Rows(rows, weight);
    PackShared(x, rows, packed);
    LinearShared(packed, blocks, weight, activation, y, next);
    return;
  }
  pool_->ParallelFor(blocks.count, [&](size_t block, size_t thread) {
    const size_t begin = blocks.begin(block);
    const size_t count = blocks.end(block) - begin;
    const PackedRows packed = ScratchCarver(*scratch_[thread]).Rows(count, weight);
    kernels_->pack_rows(packed.Pack(x + begin * in, in, count, 0, in));
    const bool last = block + pool_->threads() >= blocks.count;
    Gemm(packed, count, weight, {0, weight.panels()}, {y + begin * width, width, activation, false},
         last ? FirstPanel(next) : weight.panel(0));
  });
}

void GemmOps::LinearNorm(const float* x, size_t rows, const PanelLinear& weight,
                         const Epilogue& epilogue, const PanelLinear* next) {
  const size_t in = static_cast<size_t>(weight.in());
  const size_t width = Columns(weight);
  const Blocks blocks = SplitRows(weight, rows, InputBytes(weight) + width * sizeof(float));
  if (blocks.count < pool_->threads()) {
    ScratchCarver carver(*shared_);
    const PackedRows packed = carver.Rows(rows, weight);
    float* product = carver.Floats(rows * width);
    PackShared(x, rows, packed);
    LinearShared(packed, blocks, weight, program::Activation::kNone, product, next);
    FinishShared(product, rows, width, epilogue);
    return;
  }
  // A block's rows are normed while they are still in the cache.
  pool_->ParallelFor(blocks.count, [&](size_t block, size_t thread) {
    const size_t begin = blocks.begin(block);
    const size_t count = blocks.end(block) - begin;
    ScratchCarver carver(*scratch_[thread]);
    const PackedRows packed = carver.Rows(count, weight);
    float* product = carver.Floats(count * width);
    kernels_->pack_rows(packed.Pack(x + begin * in, in, count, 0, in));
    const bool last = block + pool_->threads() >= blocks.count;
    Gemm(packed, count, weight, {0, weight.panels()},
         {product, width, program::Activation::kNone, false},
         last ? FirstPanel(next) : weight.panel(0));
    FinishRows(product, begin, begin + count, width, epilogue);
  });
}

void GemmOps::Inner(const FeedForwardArgs& args, const PackedRows& x, size_t rows, Panels panels,
                    const PackedRows& inner, float* strip, const Word* next) const {
  const PanelLinear& in = *args.in;
  const size_t panel = static_cast<size_t>(kernels_->panel);
  const size_t step = kScaleGroup / panel;
  for (size_t first = panels.begin; first < panels.end; first += step) {
    const Panels part = {first, std::min(panels.end, first + step)};
    const size_t begin = part.begin * panel;
    const size_t end = std::min(part.end * panel, Columns(in));
    Output output = {strip, kScaleGroup, args.activation, false};
    if (inner.dtype == numbers::DType::kF32) {
      output.y = reinterpret_cast<float*>(inner.words) + begin;
      output.stride = RowStride(numbers::DType::kF32, inner.in);
    }
    const Word* after = part.end < panels.end ? in.panel(part.end) : next;
    if (args.gate == nullptr) {
      Gemm(x, rows, in, part, output, after);
    } else {
      const PanelLinear& gate = *args.gate;
      Gemm(x, rows, in, part, output, gate.panel(part.begin));
      output.activation = program::Activation::kNone;
      output.multiply = true;
      Gemm(x, rows, gate, part, output, after);
    }
    if (inner.dtype != numbers::DType::kF32) {
      kernels_->pack_rows(inner.Pack(strip, kScaleGroup, rows, begin, end));
    }
  }
}

void GemmOps::FeedForward(const FeedForwardArgs& args) {
  const PanelLinear& in = *args.in;
  const PanelLinear& out = *args.out;
  const size_t hidden = static_cast<size_t>(in.in());
  const size_t width = Columns(out);
  const Epilogue epilogue = {args.residual, args.norm, args.sum, args.y};
  const Blocks blocks = SplitRows(
      in, args.rows,
      InputBytes(in) + InputBytes(out) + (StripFloats(out.dtype()) + width) * sizeof(float));
  if (blocks.count < pool_->threads()) {
    FeedForwardShared(args, blocks);
    return;
  }
  pool_->ParallelFor(blocks.count, [&](size_t block, size_t thread) {
    const size_t begin = blocks.begin(block);
    const size_t count = blocks.end(block) - begin;
    ScratchCarver carver(*scratch_[thread]);
    const PackedRows packed = carver.Rows(count, in);
    const PackedRows inner = carver.Rows(count, out);
    float* strip = carver.Floats(count * StripFloats(out.dtype()));
    float* product = carver.Floats(count * width);
    kernels_->pack_rows(packed.Pack(args.x + begin * hidden, hidden, count, 0, hidden));
    Inner(args, packed, count, {0, in.panels()}, inner, strip, out.panel(0));
    const bool last = block + pool_->threads() >= blocks.count;
    Gemm(inner, count, out, {0, out.panels()}, {product, width, program::Activation::kNone, false},
         last ? FirstPanel(args.next) : in.panel(0));
    FinishRows(product, begin, begin + count, width, epilogue);
  });
}

void GemmOps::FeedForwardShared(const FeedForwardArgs& args, const Blocks& blocks) {
  const PanelLinear& in = *args.in;
  const PanelLinear& out = *args.out;
  const size_t width = Columns(out);
  ScratchCarver carver(*shared_);
  const PackedRows packed = carver.Rows(args.rows, in);
  const PackedRows inner = carver.Rows(args.rows, out);
  float* product = carver.Floats(args.rows * width);
  PackShared(args.x, args.rows, packed);
  // int8 rows are packed by whole groups of scales.
  const size_t unit =
      out.dtype() == numbers::DType::kI8 ? kScaleGroup / static_cast<size_t>(kernels_->panel) : 1;
  const size_t units = CeilDiv(in.panels(), unit);
  const size_t groups = SplitPanels(blocks, in, unit);
  const size_t tasks = blocks.count * groups;
  pool_->ParallelFor(tasks, [&](size_t task, size_t thread) {
    const size_t begin = blocks.begin(task / groups);
    const size_t group = task % groups;
    const Panels panels = {units * group / groups * unit,
                           std::min(units * (group + 1) / groups * unit, in.panels())};
    Inner(args, packed.From(begin), blocks.end(task / groups) - begin, panels, inner.From(begin),
          scratch_[thread]->data(), Ahead(in, args.out, task, tasks, groups, unit));
  });
  LinearShared(inner, blocks, out, program::Activation::kNone, product, args.next);
  FinishShared(product, args.rows, width, {args.residual, args.norm, args.sum, args.y});
}

}  // namespace penstock::cpu
