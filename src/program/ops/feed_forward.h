// FeedForwardOp: two linear layers, or three with a gate, and their sum with a residual.
#pragma once

#include "program/op_visitor.h"

namespace penstock::program {

// p = out(activation(in(n)) [* up(n)]) where n = norm(x); s = residual + scale * residual.norm(p),
// y = after(s). y may be x as well.
struct FeedForwardOp {
  static constexpr const char* kName = "feed_forward";

  ValueId x = kNoValue;
  Norm norm;
  const PackedLinear* in = nullptr;
  Activation activation = Activation::kNone;
  const PackedLinear* up = nullptr;  // with kI8, packed with the column factors of `in`; or null
  const PackedLinear* out = nullptr;
  Residual residual;
  ValueId y = kNoValue;

  template <typename V>
  void Describe(V& v) const {
    v.Read("x", x, v.RowsOf(x));
    v.Normalise("norm", norm, v.WidthOf(x));
    const int32_t inner = v.Multiply("in", in, x, v.WidthOf(x));
    DescribeActivation(v, activation);
    if (up != nullptr) {
      const int32_t width = v.Multiply("up", up, x, v.WidthOf(x));
      v.Require(width == inner, "up and in differ in width");
    }
    DescribeResidual(v, residual, x, y, v.Multiply("out", out, x, inner));
  }
};

}  // namespace penstock::program
