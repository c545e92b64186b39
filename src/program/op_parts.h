// What operations are made of (program/ops/): values, tables, weights and norms.
#pragma once

#include <cstddef>
#include <cstdint>

#include "numbers/dtype.h"
#include "program/op_kinds.h"

namespace penstock::program {

// Floats in a backend's memory that ops read: embeddings, norms, rotary tables. Immutable.
class Table {
 public:
  virtual ~Table() = default;
  int64_t rows() const { return rows_; }
  int32_t width() const { return width_; }
  uint64_t bytes() const {
    return static_cast<uint64_t>(rows_) * static_cast<uint64_t>(width_) * sizeof(float);
  }

 protected:
  Table(int64_t rows, int32_t width) : rows_(rows), width_(width) {}

 private:
  int64_t rows_;
  int32_t width_;
};

// A weight matrix [out, in] and its bias, in the layout the backend multiplies by. Immutable.
class PackedLinear {
 public:
  virtual ~PackedLinear() = default;
  int32_t in() const { return in_; }
  int32_t out() const { return out_; }
  numbers::DType dtype() const { return dtype_; }  // of both operands: kF32, kBf16 or kI8
  virtual uint64_t bytes() const = 0;              // in memory

 protected:
  PackedLinear(int32_t in, int32_t out, numbers::DType dtype) : in_(in), out_(out), dtype_(dtype) {}

 private:
  int32_t in_;
  int32_t out_;
  numbers::DType dtype_;
};

// kTokens: one for each token of the batch. kSequences: one for each sequence, or in programs with
// a cache one for each token that was picked.
enum class Rows : uint8_t { kTokens, kSequences };

struct Value {
  Rows rows = Rows::kTokens;
  int32_t width = 0;
};
using ValueId = uint16_t;  // index into Program::values
inline constexpr ValueId kNoValue = UINT16_MAX;

// kLayer: (x - mean) / sqrt(variance + epsilon) gamma + beta. kRms:
// x / sqrt(mean of squares + epsilon) gamma.
enum class NormKind : uint8_t { kLayer, kRms };

// gamma null: none. Tables are [1, width]; beta may be null, and is in kRms.
struct Norm {
  const Table* gamma = nullptr;
  const Table* beta = nullptr;
  float epsilon = 0;
  NormKind kind = NormKind::kLayer;
};

// How the result p of an operation is added to a value: s = value + scale * norm(p), y = after(s).
// y may be the value.
struct Residual {
  ValueId value = kNoValue;
  Norm norm;
  float scale = 1;
  Norm after;
  ValueId sum = kNoValue;  // if it is a value, s; it may be the value that is added
};

// Sequences of equal length.
struct BatchShape {
  int64_t sequences = 1;
  int64_t length = 1;  // tokens of each
  // With a cache: tokens of each that are cached already, and bytes of a cached number.
  int64_t past = 0;
  int64_t cache_bytes = 2;
};

struct Cost {
  // Multiplications and additions of linear layers and of attention; all else (norms, activations,
  // softmax, pooling) is not counted.
  double operations = 0;
  uint64_t weight_bytes = 0;      // weights and tables (all rows) in memory, each once
  uint64_t activation_bytes = 0;  // values read and written, each once
  uint64_t cache_bytes = 0;       // keys and values read and appended
};

}  // namespace penstock::program
