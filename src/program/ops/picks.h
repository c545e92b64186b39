// PicksOp: the results of tokens that are asked for, logits or hidden states.
#pragma once

#include "program/op_visitor.h"

namespace penstock::program {

// y = cap(scale * norm(x) W^T) of the rows that are picked, cap as AttentionShape::soft_cap; or
// without a matrix norm(x), hidden states, of models that embed or score.
struct PicksOp {
  static constexpr const char* kName = "picks";

  ValueId x = kNoValue;  // rows of tokens
  Norm norm;
  const PackedLinear* weight = nullptr;  // [vocabulary, width of x]; or null
  float scale = 1;
  float soft_cap = 0;
  ValueId y = kNoValue;  // rows of sequences

  template <typename V>
  void Describe(V& v) const {
    v.ReadPicked("x", x);
    v.Normalise("norm", norm, v.WidthOf(x));
    v.Require(weight != nullptr || (scale == 1 && soft_cap == 0),
              "states have no scale and no soft cap");
    const int32_t width =
        weight == nullptr ? v.WidthOf(x) : v.Multiply("", weight, y, v.WidthOf(x));
    DescribeScale(v, scale);
    v.Require(soft_cap >= 0, "the soft cap is negative");
    DescribeSoftCap(v, soft_cap);
    v.Write("y", y, Rows::kSequences, width);
  }
};

}  // namespace penstock::program
