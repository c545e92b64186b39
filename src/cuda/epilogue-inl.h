// Epilogue of products: bias, activation, gate, residual, and both forms of the result.
#pragma once

#include "cuda/kernels.h"
#include "cuda/simt.h"

namespace penstock::cuda {

SIMT_FN uint32_t PackOperands(float low, float high, bool half) {
  return half ? simt::PackHalf(low, high) : simt::PackBf16(low, high);
}

// The power of two by which a row of operands in f16 is multiplied, so that its largest value lies
// between 2^14 and 2^15, and one divided by it. Both are normal numbers.
struct OperandScale {
  float factor, inverse;
};
SIMT_FN OperandScale OperandScaleOf(float largest) {
  uint32_t exponent = simt::BitsOf(largest) >> 23 & 0xFF;
  exponent = exponent < 15 ? 15 : exponent;
  return {simt::FloatOf((268 - exponent) << 23), simt::FloatOf((exponent - 14) << 23)};
}

// tanh, silu and gelu by tanh in one form, so that they share one branch:
// (shift + slope x) sigmoid(steep x (1 + cube x^2)) + offset. Near 0 tanh is a difference: its error
// is small beside 1, not beside its value.
struct SigmoidForm {
  float steep, cube, shift, slope, offset;
};
SIMT_FN SigmoidForm SigmoidFormOf(program::Activation activation) {
  using program::Activation;
  if (activation == Activation::kTanh) return {2.0F, 0.0F, 2.0F, 0.0F, -1.0F};
  if (activation == Activation::kSilu) return {1.0F, 0.0F, 0.0F, 1.0F, 0.0F};
  return {1.59576912F, 0.044715F, 0.0F, 1.0F, 0.0F};  // twice sqrt(2 / pi)
}

// The first kCount values of each row, in place: one branch, not one for each.
template <int kCount, int kRows>
SIMT_FN void Activate(float (&values)[kRows][4], program::Activation activation) {
  using program::Activation;
  const auto each = [&](auto&& function) {
    SIMT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      SIMT_UNROLL
      for (int i = 0; i < kCount; ++i) values[r][i] = function(values[r][i]);
    }
  };
  if (activation == Activation::kNone) return;
  if (activation == Activation::kGelu) {
    each([](float x) { return simt::Gelu(x); });
  } else if (activation == Activation::kRelu) {
    each([](float x) { return x < 0 ? 0.0F : x; });
  } else {
    const SigmoidForm form = SigmoidFormOf(activation);
    each([&](float x) {
      const float at = x * simt::Fma(x * x, form.cube, 1.0F) * form.steep;
      return simt::Fma(simt::Fma(x, form.slope, form.shift), simt::Sigmoid(at), form.offset);
    });
  }
}

// values[at] and the next += two neighbours of a row of `count` values, from an even place on;
// nothing beyond its end.
SIMT_FN void AddPair(float (&values)[4], int at, const float* row, int place, int count) {
  if (count % 2 == 0) {
    if (place >= count) return;
    const simt::TwoWords two = simt::Load8(row + place);
    values[at] += simt::FloatOf(two.w[0]);
    values[at + 1] += simt::FloatOf(two.w[1]);
    return;
  }
  if (place < count) values[at] += row[place];
  if (place + 1 < count) values[at + 1] += row[place + 1];
}

// values[at] and the next, of features `place` and the next, as they are without the scales of
// operands: `row_scale` that of x.
SIMT_FN void ScalePair(float (&values)[4], int at, float row_scale, const float* scales, int place,
                       int count) {
  float factors[4] = {};
  AddPair(factors, 0, scales, place, count);
  values[at] = values[at] * factors[0] * row_scale;
  values[at + 1] = values[at + 1] * factors[1] * row_scale;
}

// Stores the two neighbours; nothing beyond the row's end. kEven: the count is known to be even.
template <bool kEven>
SIMT_FN void StorePair(float* row, int place, int count, float first, float second) {
  if (kEven || count % 2 == 0) {
    if (place < count) simt::Store8(row + place, {{simt::BitsOf(first), simt::BitsOf(second)}});
    return;
  }
  if (place < count) row[place] = first;
  if (place + 1 < count) row[place + 1] = second;
}

// 0 from the last feature on.
SIMT_FN void CutPair(float (&values)[4], int at, int feature, int features) {
  if (feature >= features) values[at] = 0;
  if (feature + 1 >= features) values[at + 1] = 0;
}

// Both forms of two neighbours of a row, from an even feature on, which may lie beyond the last one.
SIMT_FN void StoreForms(const Epilogue& to, int64_t row, int feature, float first, float second) {
  if (to.y != nullptr)
    StorePair<false>(to.y + row * to.features, feature, to.features, first, second);
  if (to.y16 != nullptr && feature < to.stride16) {
    *reinterpret_cast<uint32_t*>(to.y16 + row * to.stride16 + feature) =
        PackOperands(first, second, to.half);
  }
}

// Two operands of the first eight features and two of the next eight, which each of four lanes has,
// become four neighbours: of the first eight in even lanes, of the others in odd ones. So four lanes
// write 32 bytes without gaps, a whole sector.
SIMT_FN simt::TwoWords Exchange(uint32_t low, uint32_t high) {
  const bool odd = simt::Lane() % 2 == 1;
  const uint32_t other = simt::ShuffleXor(odd ? low : high, 1);
  return odd ? simt::TwoWords{{other, high}} : simt::TwoWords{{low, other}};
}

// StoreFeatures of a product with a gate: the two features from `feature` on, of both matrices.
template <int kRows>
SIMT_FN void StoreGated(const Epilogue& to, const int (&row)[kRows], int rows, int feature,
                        float (&sums)[kRows][4]) {
  if (to.row_scales != nullptr) {
    SIMT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const float row_scale = row[r] < rows ? to.row_scales[row[r]] : 0.0F;
      ScalePair(sums[r], 0, row_scale, to.scales, feature, to.features);
      ScalePair(sums[r], 2, row_scale, to.scales_up, feature, to.features);
    }
  }
  SIMT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    if (to.bias != nullptr) AddPair(sums[r], 0, to.bias, feature, to.features);
    if (to.bias_up != nullptr) AddPair(sums[r], 2, to.bias_up, feature, to.features);
  }
  Activate<2>(sums, to.activation);
  SIMT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    if (row[r] >= rows) continue;
    sums[r][0] *= sums[r][2];
    sums[r][1] *= sums[r][3];
    if (to.residual != nullptr) {
      AddPair(sums[r], 0, to.residual + static_cast<int64_t>(row[r]) * to.features, feature,
              to.features);
    }
    CutPair(sums[r], 0, feature, to.features);
    StoreForms(to, row[r], feature, sums[r][0], sums[r][1]);
  }
}

// The epilogue of 16 features of the piece from `feature0` on, as four neighbouring lanes hold them
// of each row: lane t the sums 2t, 2t + 1, 2t + 8 and 2t + 9. With a gate the last two are of the
// other matrix. Rows from `rows` on are not stored. By all lanes of a warp.
template <int kRows>
SIMT_FN void StoreFeatures(const GemmArgs& a, const int (&row)[kRows], int rows, int feature0,
                           float (&sums)[kRows][4]) {
  const Epilogue& to = a.to;
  const int lane = simt::Lane(), column = 2 * (lane % 4);
  if (a.up != nullptr) return StoreGated(to, row, rows, feature0 / 2 + column, sums);
  if (to.row_scales != nullptr) {
    SIMT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const float row_scale = row[r] < rows ? to.row_scales[row[r]] : 0.0F;
      ScalePair(sums[r], 0, row_scale, to.scales, feature0 + column, to.features);
      ScalePair(sums[r], 2, row_scale, to.scales, feature0 + column + 8, to.features);
    }
  }
  if (to.bias != nullptr) {
    SIMT_UNROLL
    for (int r = 0; r < kRows; ++r) {
      AddPair(sums[r], 0, to.bias, feature0 + column, to.features);
      AddPair(sums[r], 2, to.bias, feature0 + column + 8, to.features);
    }
  }
  Activate<4>(sums, to.activation);
  SIMT_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const bool valid = row[r] < rows;
    const int64_t first = static_cast<int64_t>(row[r]) * to.features;
    SIMT_UNROLL
    for (int at = 0; at < 4; at += 2) {
      const int feature = feature0 + column + 4 * at;
      if (valid && to.residual != nullptr) {
        AddPair(sums[r], at, to.residual + first, feature, to.features);
      }
      if (feature0 + 16 > to.features) CutPair(sums[r], at, feature, to.features);
      if (valid && to.y != nullptr) {
        StorePair<false>(to.y + first, feature, to.features, sums[r][at], sums[r][at + 1]);
      }
    }
    if (to.y16 == nullptr) continue;
    const simt::TwoWords four = Exchange(PackOperands(sums[r][0], sums[r][1], to.half),
                                         PackOperands(sums[r][2], sums[r][3], to.half));
    const int feature = feature0 + (lane % 2 == 1 ? column + 6 : column);
    if (valid && feature < to.stride16) {
      simt::Store8(to.y16 + static_cast<int64_t>(row[r]) * to.stride16 + feature, four);
    }
  }
}

// values[n][at] += of each n two neighbours of a row, 8 apart from one n to the next; nothing beyond
// its end. All are read before one is added: results that are stored may lie where they are read.
template <int kCount>
SIMT_FN void AddPairs(float (&values)[kCount][4], int at, const float* row, int place, int count) {
  simt::TwoWords two[kCount];
  SIMT_UNROLL
  for (int n = 0; n < kCount; ++n) {
    two[n] = place + 8 * n < count ? simt::Load8(row + place + 8 * n) : simt::TwoWords{{0, 0}};
  }
  SIMT_UNROLL
  for (int n = 0; n < kCount; ++n) {
    values[n][at] += simt::FloatOf(two[n].w[0]);
    values[n][at + 1] += simt::FloatOf(two[n].w[1]);
  }
}

// The sums of rows `row0` and row0 + 8 as they are without the scales of operands: 8 kCount features
// from `place` on, two neighbours of each 8.
template <int kCount>
SIMT_FN void ScaleTile(const Epilogue& to, int row0, int rows, int place,
                       float (&values)[kCount][4]) {
  const float first = row0 < rows ? to.row_scales[row0] : 0.0F;
  const float second = row0 + 8 < rows ? to.row_scales[row0 + 8] : 0.0F;
  SIMT_UNROLL
  for (int n = 0; n < kCount; ++n) {
    ScalePair(values[n], 0, first, to.scales, place + 8 * n, to.features);
    ScalePair(values[n], 2, second, to.scales, place + 8 * n, to.features);
  }
}

// Residual and stores of 8 kCount features from `feature0` on, of rows `row0` and row0 + 8.
template <int kCount>
SIMT_FN void StoreResults(const Epilogue& to, int row0, int rows, int feature0,
                          float (&values)[kCount][4]) {
  static_assert(kCount % 2 == 0);
  const int lane = simt::Lane(), place = feature0 + 2 * (lane % 4);
  SIMT_UNROLL
  for (int r = 0; r < 2; ++r) {
    const int row = row0 + 8 * r;
    if (to.residual == nullptr || row >= rows) continue;
    AddPairs(values, 2 * r, to.residual + static_cast<int64_t>(row) * to.features, place,
             to.features);
  }
  if (feature0 + 8 * kCount > to.features) {
    SIMT_UNROLL
    for (int n = 0; n < kCount; ++n) {
      CutPair(values[n], 0, place + 8 * n, to.features);
      CutPair(values[n], 2, place + 8 * n, to.features);
    }
  }
  SIMT_UNROLL
  for (int r = 0; r < 2; ++r) {
    const int row = row0 + 8 * r;
    if (to.y == nullptr || row >= rows) continue;
    float* const y = to.y + static_cast<int64_t>(row) * to.features;
    SIMT_UNROLL
    for (int n = 0; n < kCount; ++n) {
      StorePair<true>(y, place + 8 * n, to.features, values[n][2 * r], values[n][2 * r + 1]);
    }
  }
  if (to.y16 == nullptr) return;
  SIMT_UNROLL
  for (int r = 0; r < 2; ++r) {
    const int row = row0 + 8 * r, first = lane % 2 == 1 ? place + 6 : place;
    uint16_t* const y = to.y16 + static_cast<int64_t>(row) * to.stride16 + first;
    SIMT_UNROLL
    for (int n = 0; n < kCount; n += 2) {
      const simt::TwoWords four =
          Exchange(PackOperands(values[n][2 * r], values[n][2 * r + 1], to.half),
                   PackOperands(values[n + 1][2 * r], values[n + 1][2 * r + 1], to.half));
      if (row >= rows || first + 8 * n >= to.stride16) continue;
      simt::Store8(y + 8 * n, four);
    }
  }
}

// Activate by parts: in one they would take more registers than there are.
template <int kCount>
SIMT_FN void ActivateTile(float (&values)[kCount][4], program::Activation activation) {
  constexpr int kPart = 8;
  static_assert(kCount % kPart == 0);
  SIMT_UNROLL
  for (int first = 0; first < kCount; first += kPart) {
    float part[kPart][4];
    SIMT_UNROLL
    for (int i = 0; i < 4 * kPart; ++i) part[i / 4][i % 4] = values[first + i / 4][i % 4];
    Activate<4>(part, activation);
    SIMT_UNROLL
    for (int i = 0; i < 4 * kPart; ++i) values[first + i / 4][i % 4] = part[i / 4][i % 4];
  }
}

// StoreFeatures of many features at once, for an even number of them in all: sums of 8 kCount
// features of the piece, rows row0 (the first two of each four) and row0 + 8. Loads are all under way
// at a time.
template <int kCount>
SIMT_FN void StoreTile(const GemmArgs& a, int row0, int rows, int feature0,
                       float (&sums)[kCount][4]) {
  const Epilogue& to = a.to;
  if (a.up == nullptr) {
    const int place = feature0 + 2 * (simt::Lane() % 4);
    if (to.row_scales != nullptr) ScaleTile(to, row0, rows, place, sums);
    if (to.bias != nullptr) AddPairs(sums, 0, to.bias, place, to.features);
    if (to.bias != nullptr) AddPairs(sums, 2, to.bias, place, to.features);
    ActivateTile(sums, to.activation);
    return StoreResults(to, row0, rows, feature0, sums);
  }
  // With a gate registers are short for all at once.
  SIMT_UNROLL
  for (int n = 0; n < kCount; n += 2) {
    float some[2][4] = {{sums[n][0], sums[n][1], sums[n + 1][0], sums[n + 1][1]},
                        {sums[n][2], sums[n][3], sums[n + 1][2], sums[n + 1][3]}};
    StoreFeatures(a, {row0, row0 + 8}, rows, feature0 + 8 * n, some);
  }
}

}  // namespace penstock::cuda
