// LinearOp: a linear layer, with what follows it.
#pragma once

#include "program/op_visitor.h"

namespace penstock::program {

// y = p = activation(x W^T + bias), or with a residual s = residual + scale * norm(p), y =
// after(s).
struct LinearOp {
  static constexpr const char* kName = "linear";

  ValueId x = kNoValue;
  const PackedLinear* weight = nullptr;
  Activation activation = Activation::kNone;
  Residual residual;  // or one without a value
  ValueId y = kNoValue;

  template <typename V>
  void Describe(V& v) const {
    v.Read("x", x, v.RowsOf(x));
    v.Differ("y", y, "x", x);
    const int32_t width = v.Multiply("", weight, x, v.WidthOf(x));
    DescribeActivation(v, activation);
    if (residual.value != kNoValue) return DescribeResidual(v, residual, x, y, width);
    v.Require(residual.norm.gamma == nullptr && residual.after.gamma == nullptr &&
                  residual.scale == 1 && residual.sum == kNoValue,
              "the residual is missing");
    v.Write("y", y, v.RowsOf(x), width);
  }
};

}  // namespace penstock::program
