#include "cpu/block_linear.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "base/int_math.h"
#include "cpu/amx.h"
#include "cpu/pack_slices.h"

namespace penstock::cpu {
namespace {

// Weights that a thread repacks before it gives their pages back.
constexpr size_t kRunBytes = 1 << 20;
// The first slice's weights for each thread: a millisecond of a slow processor.
constexpr size_t kFirstSliceBytes = 256 << 10;

// Weights read from a file ahead of those that are packed, while no turn is held.
constexpr size_t kAheadBytes = 16 << 20;

// The rows from `row` on of the part that holds it; parts stand one below the other.
program::TensorView RowsFrom(std::span<const program::LinearRows> parts, size_t row) {
  auto left = static_cast<int64_t>(row);
  for (const program::LinearRows& part : parts) {
    if (left < part.weight.rows) return part.weight.Rows(left, part.weight.rows - left);
    left -= part.weight.rows;
  }
  return {};
}

// Gives back the whole pages of a range of a file's private mapping.
void GiveBackPages(const std::byte* begin, size_t bytes) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t from = CeilDiv(reinterpret_cast<uintptr_t>(begin), page) * page;
  const uintptr_t to = (reinterpret_cast<uintptr_t>(begin) + bytes) / page * page;
  if (from < to) madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED);
}

// Has the system read the pages of a range of a file's mapping, from now on.
void WantPages(const std::byte* begin, size_t bytes) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t from = reinterpret_cast<uintptr_t>(begin) / page * page;
  madvise(reinterpret_cast<void*>(from), reinterpret_cast<uintptr_t>(begin) + bytes - from,
          MADV_WILLNEED);
}

// Returns once the pages of a range are in memory. A turn that is held is given back where a disk is
// slow: after a page that took long, or once the turn is over. mincore would tell only the owner of a
// file which pages have to be read.
void TouchPages(const std::byte* begin, size_t bytes, gate::LoadTurn* turn) {
  constexpr std::chrono::microseconds kRead(20), kSlow(1000);  // in memory they take one or two
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (size_t at = 0; at < bytes; at += page) {
    const bool held = turn->held();
    const Clock::time_point before = held ? Clock::now() : Clock::time_point();
    (void)*static_cast<const volatile std::byte*>(begin + at);
    if (!held) continue;
    const Clock::duration took = Clock::now() - before;
    if (took > kSlow) turn->GiveBack();
    if (took > kRead) turn->GiveBackIfOver();
  }
}

// Calls range(data, bytes) for rows [begin, end) of all parts together.
template <typename Range>
void ForRows(std::span<const program::LinearRows> parts, size_t begin, size_t end, Range&& range) {
  while (begin < end) {
    const program::TensorView rows = RowsFrom(parts, begin);
    const size_t count = std::min(end - begin, static_cast<size_t>(rows.rows));
    range(rows.data, count * rows.row_bytes());
    begin += count;
  }
}

// Before memory is taken and biases are read: neither is to take long while a turn is held.
void PrepareFor(std::span<const program::LinearRows> parts, const program::PackOptions& options,
                const HugePageArena* arena, gate::LoadTurn* turn) {
  if (arena->spreads()) turn->GiveBack();
  if (!options.mapped_file) return;
  for (const program::LinearRows& part : parts) {
    if (part.bias.data != nullptr) TouchPages(part.bias.data, part.bias.row_bytes(), turn);
  }
}

Status CheckPart(const program::LinearRows& part, const program::LinearRows& first) {
  const program::TensorView& weight = part.weight;
  const program::TensorView& bias = part.bias;
  if (weight.dtype != first.weight.dtype || weight.columns != first.weight.columns ||
      weight.rows <= 0) {
    return Status::InvalidArgument(
        "parts of a linear layer must have the same type and number of columns, and at least one "
        "row");
  }
  if ((bias.data != nullptr) != (first.bias.data != nullptr)) {
    return Status::InvalidArgument("a bias for some parts of a linear layer only");
  }
  if (bias.data == nullptr) return Status();
  if (bias.rows != 1 || bias.columns != weight.rows) {
    return Status::InvalidArgument("a bias of " + std::to_string(bias.rows * bias.columns) +
                                   " values for " + std::to_string(weight.rows) + " outputs");
  }
  if (!numbers::ConvertsToF32(bias.dtype)) {
    return Status::Unsupported(std::string("a bias of type ") + numbers::DTypeName(bias.dtype));
  }
  return Status();
}

Status Check(std::span<const program::LinearRows> parts, const program::PackOptions& options) {
  if (parts.empty()) return Status::InvalidArgument("a linear layer without a matrix");
  const numbers::DType stored = parts[0].weight.dtype;
  const int64_t columns = parts[0].weight.columns;
  const std::string name = numbers::DTypeName(stored);
  if (std::find(numbers::kStoredTypes.begin(), numbers::kStoredTypes.end(), stored) ==
      numbers::kStoredTypes.end()) {
    return Status::Unsupported("products of " + name + " weights");
  }
  for (const program::LinearRows& part : parts) PENSTOCK_RETURN_IF_ERROR(CheckPart(part, parts[0]));
  constexpr int64_t kSizeMax = std::numeric_limits<int32_t>::max();
  if (columns > kSizeMax || program::RowsOf(parts) > kSizeMax) {
    return Status::InvalidArgument("a linear layer of more than 2^31 rows or columns");
  }
  if (columns <= 0 || !ValidBlockRow(stored, static_cast<size_t>(columns))) {
    return Status::InvalidArgument("a row of " + std::to_string(columns) + " " + name +
                                   " values: not a multiple of " +
                                   std::to_string(numbers::BlockOf(stored).elements));
  }
  if (options.dtype == numbers::DType::kF32 || options.dtype == numbers::DType::kBf16) {
    return Status();
  }
  if (options.dtype != numbers::DType::kI8) {
    return Status::Unsupported(std::string("the CPU does not multiply in ") +
                               numbers::DTypeName(options.dtype));
  }
  if (!numbers::IsBlockType(stored))
    return Status::Unsupported("int8 products of " + name + " weights");
  if (!options.column_factors.empty()) {
    return Status::Unsupported("column factors of " + name + " weights");
  }
  return Status();
}

}  // namespace

BlockLinear::BlockLinear(std::span<const program::LinearRows> parts, numbers::DType dtype,
                         const Kernels* kernels, HugePageArena* arena)
    : program::PackedLinear(static_cast<int32_t>(parts[0].weight.columns),
                            static_cast<int32_t>(program::RowsOf(parts)), dtype),
      kernels_(kernels),
      tile_rows_min_(BlockTileRowsMin(*kernels)),
      shape_{parts[0].weight.dtype, static_cast<size_t>(in()), static_cast<size_t>(kernels->panel)},
      columns_(static_cast<size_t>(out())),
      panels_(CeilDiv(columns_, shape_.width)),
      panel_bytes_(BlockPanelBytes(shape_.stored, shape_.in, shape_.width)),
      weights_(arena->Alloc(panels_ * panel_bytes_)) {
  if (parts[0].bias.data == nullptr) return;
  const size_t padded = panels_ * shape_.width;
  bias_ = arena->Alloc(padded * sizeof(float));
  float* to = static_cast<float*>(bias_.data);
  std::fill(to + columns_, to + padded, 0.0f);
  for (const program::LinearRows& part : parts) {
    part.bias.CopyToF32(0, 1, to);
    to += part.bias.columns;
  }
}

Expected<std::unique_ptr<BlockLinear>> BlockLinear::Pack(std::span<const program::LinearRows> parts,
                                                         const program::PackOptions& options,
                                                         const Kernels* kernels, ThreadPool* pool,
                                                         HugePageArena* arena,
                                                         gate::LoadTurn* turn) {
  PENSTOCK_RETURN_IF_ERROR(Check(parts, options));
  if (turn != nullptr) PrepareFor(parts, options, arena, turn);
  std::unique_ptr<BlockLinear> linear(new BlockLinear(parts, options.dtype, kernels, arena));
  const size_t panels = linear->panels_, columns = linear->columns_, width = linear->shape_.width;
  if (options.mapped_file) ForRows(parts, 0, columns, WantPages);
  if (turn == nullptr) {
    linear->PackPanels(parts, options, 0, panels, pool);
  } else {
    const size_t first = pool->threads() * kFirstSliceBytes / linear->panel_bytes_;
    const size_t ahead = std::max<size_t>(1, kAheadBytes / linear->panel_bytes_);
    size_t touched = options.mapped_file ? 0 : panels;
    RunInSlices(panels, first, [&](size_t begin, size_t end) {
      const auto touch = [&](size_t until) {
        if (until <= touched) return;
        ForRows(parts, touched * width, std::min(columns, until * width),
                [&](const std::byte* data, size_t bytes) { TouchPages(data, bytes, turn); });
        touched = until;
      };
      touch(end);
      if (!turn->held()) touch(std::min(panels, end + ahead));
      turn->Begin();
      const Clock::time_point began = Clock::now();
      linear->PackPanels(parts, options, begin, end, pool);
      turn->End();
      return Clock::now() - began;
    });
  }
  // Pages between two runs; and the system maps some beside those touched.
  if (options.mapped_file) ForRows(parts, 0, columns, GiveBackPages);
  return linear;
}

// Threads share runs of panels: large ones, as a system call follows each, but enough of them.
void BlockLinear::PackPanels(std::span<const program::LinearRows> parts,
                             const program::PackOptions& options, size_t first, size_t last,
                             ThreadPool* pool) {
  const size_t share = CeilDiv(last - first, 4 * pool->threads());
  const size_t run = std::clamp<size_t>(kRunBytes / panel_bytes_, 1, share);
  pool->ParallelFor(CeilDiv(last - first, run), [&](size_t index, size_t) {
    const size_t begin = first + index * run, end = std::min(last, begin + run);
    for (size_t p = begin; p < end; ++p) PackPanel(parts, p);
    if (!options.mapped_file) return;
    ForRows(parts, begin * shape_.width, std::min(columns_, end * shape_.width), GiveBackPages);
  });
}

void BlockLinear::PackPanel(std::span<const program::LinearRows> parts, size_t index) {
  constexpr size_t kWidthMax = 64;
  PENSTOCK_CHECK(shape_.width <= kWidthMax);
  const std::byte* rows[kWidthMax];
  const size_t first = index * shape_.width;
  const size_t count = std::min(shape_.width, columns_ - first);
  for (size_t c = 0; c < count; ++c) rows[c] = RowsFrom(parts, first + c).data;
  uint8_t* to = static_cast<uint8_t*>(weights_.data) + index * panel_bytes_;
  if (count < shape_.width) std::memset(to, 0, panel_bytes_);
  WriteBlockPanel(shape_, {rows, count}, to);
}

uint64_t BlockLinear::bytes() const {
  const size_t bias_bytes = bias_.data == nullptr ? 0 : panels_ * shape_.width * sizeof(float);
  return panels_ * panel_bytes_ + bias_bytes;
}

const uint8_t* BlockLinear::panel(size_t index) const {
  return static_cast<const uint8_t*>(weights_.data) + index * panel_bytes_;
}

void BlockLinear::ReadRow(size_t row, float* to) const {
  ReadBlockPanelRow(shape_, panel(row / shape_.width), row % shape_.width, to);
}

size_t BlockLinear::RowTiles(size_t rows) const {
  return BlockRowTiles(rows, static_cast<size_t>(kernels_->tile_rows));
}

void BlockLinear::PackRows(const float* x, size_t x_stride, size_t rows, Word* packed,
                           size_t first_tile, size_t tiles) const {
  PackBlockRowsTask task;
  task.dtype = dtype();
  task.x = x;
  task.x_stride = x_stride;
  task.rows = rows;
  task.in = shape_.in;
  task.packed = packed;
  task.first_tile = first_tile;
  task.tiles = tiles;
  task.tile_rows_min = tile_rows_min_;
  kernels_->pack_block_rows(task);
}

void BlockLinear::Run(const BlockRun& run, size_t first_panel, size_t panel_count) const {
  const size_t first = first_panel * shape_.width;
  BlockGemmTask task;
  task.stored = shape_.stored;
  task.dtype = dtype();
  task.x = run.x;
  task.panels = panel(first_panel);
  task.bias = bias_.data == nullptr ? nullptr : static_cast<const float*>(bias_.data) + first;
  task.y = run.y + first;
  task.rows = run.rows;
  task.in = shape_.in;
  task.panel_count = panel_count;
  task.cols = std::min(columns_, (first_panel + panel_count) * shape_.width) - first;
  task.y_stride = run.y_stride;
  task.activation = run.activation;
  task.multiply = run.multiply;
  task.residual = run.residual == nullptr ? nullptr : run.residual + first;
  task.scratch = run.scratch;
  task.next = run.next;
  task.tile_rows_min = tile_rows_min_;
  if (panel_count > 0 && run.rows > 0) kernels_->block_gemm(task);
}

}  // namespace penstock::cpu
