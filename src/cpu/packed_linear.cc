#include "cpu/packed_linear.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/int_math.h"
#include "base/status.h"

namespace penstock::cpu {
namespace {

uint16_t ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Symmetric: the largest becomes +-127. Returns the scale; `sum` is that of the results.
float Quantize(const float* from, size_t n, int8_t* to, int32_t* sum) {
  float largest = 0;
  bool finite = true;
  for (size_t i = 0; i < n; ++i) {
    largest = std::max(largest, std::abs(from[i]));
    finite = finite && std::isfinite(from[i]);
  }
  *sum = 0;
  std::fill(to, to + n, int8_t{0});
  if (!finite) return std::numeric_limits<float>::quiet_NaN();
  if (largest < 1e-30f) return 0;
  for (size_t i = 0; i < n; ++i) {
    to[i] = static_cast<int8_t>(std::lrint(from[i] * (127 / largest)));
    *sum += to[i];
  }
  return largest / 127;
}

}  // namespace

PanelLinear::PanelLinear(std::span<const program::LinearRows> parts,
                         const program::PackOptions& options, size_t panel, HugePageArena* arena)
    : program::PackedLinear(static_cast<int32_t>(parts[0].weight.columns),
                            static_cast<int32_t>(program::RowsOf(parts)), options.dtype),
      panel_(panel),
      panels_(CeilDiv(static_cast<size_t>(out()), panel)),
      words_(RowWords(dtype(), static_cast<size_t>(in()))),
      groups_(ScaleGroups(dtype(), static_cast<size_t>(in()))),
      has_bias_(parts[0].bias.data != nullptr),
      has_factors_(dtype() == numbers::DType::kI8 && !options.column_factors.empty()),
      weights_(panels_ * panel * words_, arena),
      bias_(panels_ * panel, arena),
      scales_(panels_ * panel * groups_, arena),
      sums_(panels_ * panel * groups_, arena),
      row_factors_(has_factors_ ? static_cast<size_t>(in()) : 0, arena),
      row_(words_ * sizeof(Word), 0),
      scaled_(row_factors_.size()) {
  for (AlignedBuffer* buffer : {&weights_, &bias_, &scales_, &sums_}) {
    std::memset(buffer->data(), 0, buffer->size() * sizeof(float));
  }
  for (size_t k = 0; k < row_factors_.size(); ++k) {
    row_factors_.data()[k] = 1 / options.column_factors[k];
  }
  std::vector<float> values(static_cast<size_t>(in()));
  size_t row = 0;
  for (const program::LinearRows& part : parts) {
    PENSTOCK_CHECK(part.weight.columns == in() && (part.bias.data != nullptr) == has_bias_);
    if (has_bias_) part.bias.CopyToF32(0, 1, bias_.data() + row);
    for (int64_t r = 0; r < part.weight.rows; ++r) {
      part.weight.CopyToF32(r, 1, values.data());
      PackRow(row++, values.data(), options.column_factors.data());
    }
  }
  row_ = std::vector<int8_t>();
  scaled_ = std::vector<float>();
}

void PanelLinear::PackRow(size_t row, const float* from, const float* column_factors) {
  const size_t depth = static_cast<size_t>(in());
  const size_t column = row / panel_ * panel_ * groups_ + row % panel_;
  if (dtype() == numbers::DType::kF32) {
    std::memcpy(row_.data(), from, depth * sizeof(float));
  } else if (dtype() == numbers::DType::kBf16) {
    for (size_t k = 0; k < depth; ++k) {
      const uint16_t half = ToBf16(from[k]);
      std::memcpy(row_.data() + k * sizeof(half), &half, sizeof(half));
    }
  } else {
    for (size_t k = 0; k < scaled_.size(); ++k) scaled_[k] = from[k] * column_factors[k];
    if (has_factors_) from = scaled_.data();
    for (size_t g = 0; g < groups_; ++g) {
      const size_t begin = g * kScaleGroup;
      int32_t sum = 0;
      scales_.data()[column + g * panel_] =
          Quantize(from + begin, std::min(kScaleGroup, depth - begin), row_.data() + begin, &sum);
      const int32_t start = -sum;
      std::memcpy(sums_.data() + column + g * panel_, &start, sizeof(start));
    }
  }
  float* to = weights_.data() + row / panel_ * panel_ * words_ + row % panel_;
  for (size_t k = 0; k < words_; ++k) {
    std::memcpy(to + k * panel_, row_.data() + k * sizeof(Word), sizeof(Word));
  }
}

uint64_t PanelLinear::bytes() const {
  return (weights_.size() + bias_.size() + scales_.size() + sums_.size() + row_factors_.size()) *
         sizeof(float);
}

void PanelLinear::FillTask(size_t first, size_t count, GemmTask* task) const {
  task->dtype = dtype();
  task->in = static_cast<size_t>(in());
  task->panel_count = count;
  task->panels = panel(first);
  task->scales = scales_.data() + first * panel_ * groups_;
  task->sums = reinterpret_cast<const int32_t*>(sums_.data()) + first * panel_ * groups_;
  task->bias = has_bias_ ? bias_.data() + first * panel_ : nullptr;
  task->cols = std::min(static_cast<size_t>(out()), (first + count) * panel_) - first * panel_;
}

const Word* PanelLinear::panel(size_t index) const {
  return reinterpret_cast<const Word*>(weights_.data()) + index * panel_ * words_;
}

PackedRows::PackedRows(void* memory, size_t capacity, const PanelLinear& weight)
    : dtype(weight.dtype()),
      in(static_cast<size_t>(weight.in())),
      factors(weight.row_factors()),
      words(static_cast<Word*>(memory)),
      scales(reinterpret_cast<RowScale*>(words + capacity * RowStride(dtype, in))) {}

PackedRows PackedRows::From(size_t row) const {
  PackedRows rest = *this;
  rest.words += row * RowStride(dtype, in);
  rest.scales += row * ScaleGroups(dtype, in);
  return rest;
}

PackRowsTask PackedRows::Pack(const float* x, size_t x_stride, size_t rows, size_t begin,
                              size_t end) const {
  PackRowsTask task;
  task.dtype = dtype;
  task.x = x;
  task.x_stride = x_stride;
  task.rows = rows;
  task.columns = end - begin;
  task.factors = factors == nullptr ? nullptr : factors + begin;
  task.words = words + begin / WordValues(dtype);
  task.stride = RowStride(dtype, in);
  task.scales = scales + begin / kScaleGroup;
  task.scale_stride = ScaleGroups(dtype, in);
  return task;
}

}  // namespace penstock::cpu
