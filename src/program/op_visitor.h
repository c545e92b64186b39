// OpVisitor: what an operation says about itself.
//
// Each operation has kName and one Describe, which calls a visitor for all that the operation
// reads, multiplies by, adds, requires and writes, in the order in which it is printed. Checks,
// costs, texts, lists of weights and the sizes of buffers are visitors: they derive from OpVisitor,
// hide the calls they want, and know no operation by name.
#pragma once

#include <cstdint>

#include "program/op_parts.h"

namespace penstock::program {

struct OpVisitor {
  // Of the program; 0 or kTokens where the visitor knows none, and of ids without a value.
  int32_t WidthOf(ValueId /*id*/) const { return 0; }
  Rows RowsOf(ValueId /*id*/) const { return Rows::kTokens; }
  int32_t max_length() const { return 0; }
  int32_t rope_switch() const { return 0; }

  // A value that is read; of ReadPicked, some of its rows.
  void Read(const char* /*name*/, ValueId /*id*/, Rows /*rows*/) {}
  void ReadPicked(const char* /*name*/, ValueId /*id*/) {}
  // A value of that width that is added to the result.
  void Add(const char* /*name*/, ValueId /*id*/, Rows /*rows*/, int32_t /*width*/) {}
  void Write(const char* /*name*/, ValueId /*id*/, Rows /*rows*/, int32_t /*width*/) {}
  // Columns [column, column + width) of a value, the first ones first.
  void WriteColumns(const char* /*name*/, ValueId /*id*/, int32_t /*column*/, int32_t /*width*/) {}
  // `written` is written while `read` is read still.
  void Differ(const char* /*written*/, ValueId /*a*/, const char* /*read*/, ValueId /*b*/) {}

  // x W^T for each row of value `rows`, where x has that width. Returns the width of the result; 0:
  // the matrix is missing. An empty name is that of an operation with one matrix.
  int32_t Multiply(const char* /*name*/, const PackedLinear* weight, ValueId /*rows*/,
                   int32_t /*width*/) {
    return weight == nullptr ? 0 : weight->out();
  }
  // A row of the matrix for each row of value `rows`.
  void LookUp(const char* /*name*/, const PackedLinear& /*weight*/, ValueId /*rows*/) {}
  // Tables may be null. Those without a name are not printed.
  void Use(const char* /*name*/, const Table* /*table*/) {}
  // A norm, if it has a gamma, of rows of that width.
  void Normalise(const char* /*name*/, const Norm& /*norm*/, int32_t /*width*/) {}

  // What must hold; `what` and `parts` are as fmt::format takes them. Returns `holds`.
  template <typename... Parts>
  bool Require(bool holds, const char* /*what*/, const Parts&... /*parts*/) {
    return holds;
  }
  // A setting to print.
  template <typename... Parts>
  void Note(const char* /*what*/, const Parts&... /*parts*/) {}
  // Cost beside that of values, matrices, norms and tables: cost(BatchShape) gives it.
  template <typename Function>
  void Compute(const Function& /*cost*/) {}
};

inline const char* ActivationName(Activation activation) {
  constexpr const char* kNames[] = {"none", "gelu", "gelu_tanh", "relu", "silu", "tanh"};
  return kNames[static_cast<int>(activation)];
}

// What several operations have in common.

template <typename V>
void DescribeActivation(V& v, Activation activation) {
  if (activation != Activation::kNone) v.Note("{}", ActivationName(activation));
}

template <typename V>
void DescribeScale(V& v, float scale) {
  if (scale != 1) v.Note("times {}", scale);
}

template <typename V>
void DescribeSoftCap(V& v, float cap) {
  if (cap != 0) v.Note("soft cap {}", cap);
}

// `x`: the operation's input, which is read to the end.
template <typename V>
void DescribeResidual(V& v, const Residual& residual, ValueId x, ValueId y, int32_t width) {
  const Rows rows = v.RowsOf(x);
  v.Normalise("norm", residual.norm, width);
  DescribeScale(v, residual.scale);
  v.Add("residual", residual.value, rows, width);
  v.Normalise("norm", residual.after, width);
  if (residual.sum != kNoValue) {
    v.Differ("sum", residual.sum, "x", x);
    v.Differ("sum", residual.sum, "y", y);
    v.Write("sum", residual.sum, rows, width);
  }
  v.Write("y", y, rows, width);
}

// Rotary tables [positions, size / 2], or null.
template <typename V>
void DescribeRope(V& v, const Table* cos, const Table* sin, int32_t size, int32_t head_size,
                  int32_t positions) {
  v.Require((cos == nullptr) == (sin == nullptr), "rotary tables come in pairs");
  for (const Table* rope : {cos, sin}) {
    if (rope == nullptr) continue;
    v.Require(size > 0 && size % 2 == 0 && size <= head_size && rope->width() == size / 2,
              "rotary tables do not fit the head");
    v.Require(rope->rows() >= positions, "rotary tables are shorter than max_length");
  }
}

}  // namespace penstock::program
