// Operations over rows alone: rows that are given, norms, pooling.
#pragma once

#include "program/op_visitor.h"

namespace penstock::program {

// y = PackedBatch::input: for programs that begin in the middle of a model.
struct InputOp {
  static constexpr const char* kName = "input";

  ValueId y = kNoValue;

  template <typename V>
  void Describe(V& v) const {
    v.Write("y", y, Rows::kTokens, v.WidthOf(y));
  }
};

// y = norm(x). y may be x.
struct NormOp {
  static constexpr const char* kName = "norm";

  ValueId x = kNoValue;
  Norm norm;
  ValueId y = kNoValue;

  template <typename V>
  void Describe(V& v) const {
    v.Read("x", x, v.RowsOf(x));
    v.Require(norm.gamma != nullptr, "the norm is missing");
    v.Normalise("", norm, v.WidthOf(x));
    v.Write("y", y, v.RowsOf(x), v.WidthOf(x));
  }
};

inline const char* PoolingName(Pooling pooling) {
  constexpr const char* kNames[] = {"cls",       "mean",          "max",
                                    "lasttoken", "mean_sqrt_len", "weightedmean"};
  return kNames[static_cast<int>(pooling)];
}

// Columns [column, column + width of x) of y = pooling of each sequence of x, without its first
// pool_skip tokens. Several pools fill a wider y from the left.
struct PoolOp {
  static constexpr const char* kName = "pool";

  ValueId x = kNoValue;
  Pooling pooling = Pooling::kMean;
  int32_t column = 0;
  ValueId y = kNoValue;

  template <typename V>
  void Describe(V& v) const {
    v.Read("x", x, Rows::kTokens);
    v.Note("{}", PoolingName(pooling));
    if (column > 0) v.Note("from column {}", column);
    v.WriteColumns("y", y, column, v.WidthOf(x));
  }
};

}  // namespace penstock::program
