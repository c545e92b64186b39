#include "cpu/block_linear.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "common/int_math.h"

namespace penstock::cpu {
namespace {

// The columns of one panel in the file, and where they go.
struct PanelCopy {
  std::span<const std::byte* const> columns;  // rows of the file; null: padding
  size_t width;                               // columns of a panel
  size_t in;
  uint8_t* to;
};

uint32_t LoadWord(const void* from) {
  uint32_t word = 0;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

void StoreWord(uint8_t* to, size_t index, uint32_t word) {
  std::memcpy(to + index * sizeof(word), &word, sizeof(word));
}

void CopyFloats(const PanelCopy& copy, size_t value_bytes) {
  const size_t words = BlockGroups(copy.in) * kBlockGroup * value_bytes / sizeof(Word);
  const size_t bytes = copy.in * value_bytes;
  for (size_t c = 0; c < copy.columns.size(); ++c) {
    for (size_t w = 0; w < words; ++w) {
      uint32_t word = 0;
      const size_t begin = w * sizeof(word);
      if (begin < bytes) {
        std::memcpy(&word, copy.columns[c] + begin, std::min(sizeof(word), bytes - begin));
      }
      StoreWord(copy.to, w * copy.width + c, word);
    }
  }
}

// 32 codes of a column into a group's words, from `to` on, `width` words apart.
void StoreCodes(const BlockFormat& format, const int8_t* codes, size_t width, uint8_t* to) {
  uint32_t words[kGroupWords];
  for (size_t w = 0; w < kGroupWords; ++w) words[w] = LoadWord(codes + 4 * w);
  if (format.low_bits == 8) {
    for (size_t w = 0; w < kGroupWords; ++w) StoreWord(to, w * width, words[w]);
    return;
  }
  uint32_t high[2] = {0, 0};
  for (size_t w = 0; w < kGroupWords; ++w) {
    if (format.high_bits == 1) high[0] |= (words[w] >> 4 & 0x01010101) << w;
    if (format.high_bits == 2) high[w / 4] |= (words[w] >> 4 & 0x03030303) << (2 * (w % 4));
  }
  const auto planes = static_cast<size_t>(format.high_bits);
  for (size_t i = 0; i < planes; ++i) StoreWord(to, i * width, high[i]);
  for (size_t p = 0; p < kGroupWords / 2; ++p) {
    const uint32_t low = words[2 * p] & 0x0f0f0f0f;
    const uint32_t upper = words[2 * p + 1] & 0x0f0f0f0f;
    StoreWord(to, (planes + p) * width, low | upper << 4);
  }
}

// Words of a head's scales, `width` words apart.
void StoreScales(const BlockFormat& format, const BlockFields& fields, size_t width, uint8_t* to) {
  if (!format.has_min) {
    for (size_t i = 0; i < 4; ++i) StoreWord(to, i * width, LoadWord(fields.scales + 4 * i));
    return;
  }
  uint32_t words[3] = {0, 0, 0};
  for (size_t g = 0; g < 8; ++g) {
    const auto scale = static_cast<uint32_t>(fields.scales[g]);
    const auto min = static_cast<uint32_t>(fields.mins[g]);
    words[0] |= (scale & 15) << (4 * g);
    words[1] |= (min & 15) << (4 * g);
    words[2] |= scale >> 4 << (2 * g) | min >> 4 << (16 + 2 * g);
  }
  for (size_t i = 0; i < 3; ++i) StoreWord(to, i * width, words[i]);
}

void CopyBlocks(const PanelCopy& copy, BlockType type) {
  const BlockFormat format = FormatOf(type);
  const size_t width = copy.width;
  const size_t groups = format.elements / kBlockGroup;
  const size_t halves_bytes = (format.has_min ? 4 : 2) * width;
  const size_t scale_words = format.has_scales ? (format.has_min ? 3 : 4) : 0;
  const size_t head_bytes = halves_bytes + scale_words * width * sizeof(Word);
  const size_t group_bytes =
      static_cast<size_t>(format.low_bits + format.high_bits) * sizeof(Word) * width;
  BlockFields fields;
  uint8_t* to = copy.to;
  for (size_t b = 0; b < copy.in / format.elements; ++b, to += format.bytes * width) {
    for (size_t c = 0; c < copy.columns.size(); ++c) {
      ReadBlock(type, copy.columns[c] + b * format.bytes, &fields);
      std::memcpy(to + 2 * c, &fields.d, sizeof(fields.d));
      if (format.has_min) std::memcpy(to + 2 * (width + c), &fields.m, sizeof(fields.m));
      if (format.has_scales) {
        StoreScales(format, fields, width, to + halves_bytes + c * sizeof(Word));
      }
      for (size_t g = 0; g < groups; ++g) {
        StoreCodes(format, fields.codes + g * kBlockGroup, width,
                   to + head_bytes + g * group_bytes + c * sizeof(Word));
      }
    }
  }
}

// Row `row` of parts that stand one below the other.
const std::byte* RowOf(std::span<const BlockMatrix> parts, size_t row) {
  for (const BlockMatrix& part : parts) {
    const auto rows = static_cast<size_t>(part.rows);
    const BlockFormat format = FormatOf(part.type);
    if (row < rows) {
      return part.data + row * (static_cast<size_t>(part.columns) / format.elements) * format.bytes;
    }
    row -= rows;
  }
  return nullptr;
}

size_t RowsOf(std::span<const BlockMatrix> parts) {
  size_t rows = 0;
  for (const BlockMatrix& part : parts) rows += static_cast<size_t>(part.rows);
  return rows;
}

Status Check(std::span<const BlockMatrix> parts, std::span<const float> bias, BlockMode mode) {
  if (parts.empty()) return Status::InvalidArgument("a linear layer without a matrix");
  const BlockMatrix& first = parts[0];
  const BlockFormat format = FormatOf(first.type);
  for (const BlockMatrix& part : parts) {
    if (part.type != first.type || part.columns != first.columns || part.rows <= 0) {
      return Status::InvalidArgument(
          "parts of a linear layer must have one type, as many columns "
          "and at least a row");
    }
  }
  if (first.columns <= 0 || !ValidBlockRow(first.type, static_cast<size_t>(first.columns))) {
    return Status::InvalidArgument("a row of " + std::to_string(first.columns) + " " + format.name +
                                   " values: not a multiple of " + std::to_string(format.elements));
  }
  if (!bias.empty() && bias.size() != RowsOf(parts)) {
    return Status::InvalidArgument("a bias of " + std::to_string(bias.size()) + " values for " +
                                   std::to_string(RowsOf(parts)) + " outputs");
  }
  if (mode == BlockMode::kInt8 && IsFloat(first.type)) {
    return Status::Unsupported(std::string("int8 products of ") + format.name + " weights");
  }
  return Status();
}

}  // namespace

BlockLinear::BlockLinear(std::span<const BlockMatrix> parts, std::span<const float> bias,
                         BlockMode mode, const Kernels* kernels, HugePageArena* arena)
    : kernels_(kernels),
      type_(parts[0].type),
      mode_(mode),
      in_(static_cast<size_t>(parts[0].columns)),
      out_(RowsOf(parts)),
      panel_columns_(static_cast<size_t>(kernels->panel)),
      panels_(CeilDiv(out_, panel_columns_)),
      panel_bytes_(BlockPanelBytes(type_, in_, panel_columns_)),
      weights_(arena->Alloc(panels_ * panel_bytes_)) {
  if (bias.empty()) return;
  bias_ = arena->Alloc(panels_ * panel_columns_ * sizeof(float));
  float* to = static_cast<float*>(bias_.data);
  std::fill(std::copy(bias.begin(), bias.end(), to), to + panels_ * panel_columns_, 0.0f);
}

Expected<std::unique_ptr<BlockLinear>> BlockLinear::Pack(std::span<const BlockMatrix> parts,
                                                         std::span<const float> bias,
                                                         BlockMode mode, const Kernels* kernels,
                                                         ThreadPool* pool, HugePageArena* arena) {
  if (Status status = Check(parts, bias, mode); !status.ok()) return status;
  std::unique_ptr<BlockLinear> linear(new BlockLinear(parts, bias, mode, kernels, arena));
  const size_t width = linear->panel_columns_;
  pool->ParallelFor(linear->panels_, [&](size_t p, size_t) {
    constexpr size_t kWidthMax = 64;
    PENSTOCK_CHECK(width <= kWidthMax);
    const std::byte* rows[kWidthMax];
    const size_t count = std::min(width, linear->out_ - p * width);
    for (size_t c = 0; c < count; ++c) rows[c] = RowOf(parts, p * width + c);
    uint8_t* to = static_cast<uint8_t*>(linear->weights_.data) + p * linear->panel_bytes_;
    if (count < width) std::memset(to, 0, linear->panel_bytes_);
    const PanelCopy copy = {{rows, count}, width, linear->in_, to};
    if (IsFloat(linear->type_)) {
      CopyFloats(copy, FormatOf(linear->type_).bytes);
    } else {
      CopyBlocks(copy, linear->type_);
    }
  });
  return linear;
}

const uint8_t* BlockLinear::panel(size_t index) const {
  return static_cast<const uint8_t*>(weights_.data) + index * panel_bytes_;
}

void BlockLinear::PackRows(const float* x, size_t x_stride, size_t rows, Word* packed) const {
  PackBlockRowsTask task;
  task.mode = mode_;
  task.x = x;
  task.x_stride = x_stride;
  task.rows = rows;
  task.in = in_;
  task.packed = packed;
  kernels_->pack_block_rows(task);
}

void BlockLinear::Run(const BlockRun& run, size_t first_panel, size_t panel_count) const {
  const size_t first = first_panel * panel_columns_;
  BlockGemmTask task;
  task.type = type_;
  task.mode = mode_;
  task.x = run.x;
  task.panels = panel(first_panel);
  task.bias = bias_.data == nullptr ? nullptr : static_cast<const float*>(bias_.data) + first;
  task.y = run.y + first;
  task.rows = run.rows;
  task.in = in_;
  task.panel_count = panel_count;
  task.cols = std::min(out_, (first_panel + panel_count) * panel_columns_) - first;
  task.y_stride = run.y_stride;
  task.activation = run.activation;
  task.multiply = run.multiply;
  task.residual = run.residual == nullptr ? nullptr : run.residual + first;
  task.scratch = run.scratch;
  task.next = run.next;
  if (panel_count > 0 && run.rows > 0) kernels_->block_gemm(task);
}

}  // namespace penstock::cpu
