// Program: what a model computes over a batch, as data. A model writes it once; a Backend decides
// how: on which threads, in which order of rows, where values lie in memory.
//
//   embed          %x = norm(words[ids] + positions + types)
//   linear         %qkv = %x W^T + b
//   attention      %context = attention(%qkv)
//   linear_norm    %x = norm(%x + %context W^T + b)
//   feed_forward   %x = norm(%x + out(gelu(in(%x))))
//   ...
//   pool           %pooled = mean of each sequence of %x
//
// A value is rows of floats, one for each token or each sequence of the batch. Ops run in order;
// several may write one value. Ops over rows of tokens come first, ops over rows of sequences after
// them, so that a backend may take a part of the batch (whole sequences) through the first ones
// alone.
//
// Numbers: every row of every value is a function of that row's inputs alone (attention and
// pooling: of its sequence), to the bit, whatever else is in the batch and however many threads
// work on it.
//
// A Program owns nothing: its tables and weights must outlive it and every run prepared from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "common/dtype.h"
#include "common/status.h"
#include "tensor/op_kinds.h"
#include "tensor/packed_batch.h"

namespace penstock {

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
  DType dtype() const { return dtype_; }  // of both operands: kF32, kBf16 or kI8
  virtual uint64_t bytes() const = 0;     // in memory

 protected:
  PackedLinear(int32_t in, int32_t out, DType dtype) : in_(in), out_(out), dtype_(dtype) {}

 private:
  int32_t in_;
  int32_t out_;
  DType dtype_;
};

enum class Rows : uint8_t { kTokens, kSequences };  // of the batch

struct Value {
  Rows rows = Rows::kTokens;
  int32_t width = 0;
};
using ValueId = uint16_t;  // index into Program::values
inline constexpr ValueId kNoValue = UINT16_MAX;

// A layer norm; gamma null: none. Tables are [1, width]; beta may be null.
struct Norm {
  const Table* gamma = nullptr;
  const Table* beta = nullptr;
  float epsilon = 0;
};

// y = norm(words[id] + positions[position] + types[type id]). Positions of a sequence count from
// position_padding + 1; a token whose id is position_padding has that position and is not counted.
struct EmbedOp {
  const Table* words = nullptr;
  const Table* positions = nullptr;  // or null
  const Table* types = nullptr;      // or null; with one row: that one for every token
  int32_t position_padding = -1;     // -1: count from 0
  Norm norm;
  ValueId y = kNoValue;
};

// y = PackedBatch::input: for programs that begin in the middle of a model.
struct InputOp {
  ValueId y = kNoValue;
};

// y = norm(x). y may be x.
struct NormOp {
  ValueId x = kNoValue;
  Norm norm;
  ValueId y = kNoValue;
};

// y = activation(x W^T + bias).
struct LinearOp {
  ValueId x = kNoValue;
  const PackedLinear* weight = nullptr;
  Activation activation = Activation::kNone;
  ValueId y = kNoValue;
};

// s = residual + x W^T + bias; y = norm(s), or s without a norm. `sum`, if it is a value, is set to
// s as well. y or sum may be the residual.
struct LinearNormOp {
  ValueId x = kNoValue;
  const PackedLinear* weight = nullptr;
  ValueId residual = kNoValue;
  Norm norm;
  ValueId sum = kNoValue;
  ValueId y = kNoValue;
};

// s = residual + out(activation(in(x)) [* gate(x)]); y and sum as above. y may be x as well.
struct FeedForwardOp {
  ValueId x = kNoValue;
  const PackedLinear* in = nullptr;
  const PackedLinear* gate = nullptr;  // as `in`, and packed with its column factors; null: none
  Activation activation = Activation::kNone;
  const PackedLinear* out = nullptr;
  ValueId residual = kNoValue;
  Norm norm;
  ValueId sum = kNoValue;
  ValueId y = kNoValue;
};

struct AttentionShape {
  int32_t heads = 0;
  int32_t head_size = 0;
  float scale = 1;  // positive
  // The type of the model's linear layers. If it is not kF32, attention may multiply in bf16.
  DType dtype = DType::kF32;
  // Rotary tables [positions, rope_size / 2], or null. The first rope_size dimensions of q and k
  // are rotated: pairs (i, i + rope_size / 2), or (2i, 2i + 1) when interleaved.
  const Table* rope_cos = nullptr;
  const Table* rope_sin = nullptr;
  int32_t rope_size = 0;
  bool rope_interleaved = false;
  // [heads, 2 * reach + 1], or null. Added to the scaled score of key j for query i: column
  // clamp(j - i, -reach, reach) + reach.
  const Table* relative_bias = nullptr;
  // Keys with |i - j| <= window are seen; 0: all.
  int32_t window = 0;
};

// Which token of a sequence; kFirst: after PackedBatch::pool_skip.
enum class Pick : uint8_t { kAll, kFirst, kLast };

// qkv: q, k and v side by side, each heads * head_size wide. y: one row a token, or with kFirst or
// kLast one a sequence, the result of that token alone.
struct AttentionOp {
  ValueId qkv = kNoValue;
  AttentionShape shape;
  Pick queries = Pick::kAll;
  ValueId y = kNoValue;
};

// Columns [column, column + width of x) of y = pooling of each sequence of x, without its first
// pool_skip tokens. Several pools fill a wider y from the left.
struct PoolOp {
  ValueId x = kNoValue;
  Pooling pooling = Pooling::kMean;
  int32_t column = 0;
  ValueId y = kNoValue;
};

using Op = std::variant<EmbedOp, InputOp, NormOp, LinearOp, LinearNormOp, FeedForwardOp,
                        AttentionOp, PoolOp>;

struct Program {
  int32_t max_length = 0;  // tokens of the longest sequence
  std::vector<Value> values;
  std::vector<Op> ops;
  ValueId result = kNoValue;

  ValueId AddValue(Rows rows, int32_t width) {
    values.push_back({rows, width});
    return static_cast<ValueId>(values.size() - 1);
  }
};

// "embed", "linear_norm", ...
const char* OpName(const Op& op);
// The matrices an op multiplies by, in their order.
std::vector<const PackedLinear*> WeightsOf(const Op& op);

// kInternal names the op at fault: an id without a value, widths or rows that do not fit, a value
// read before it is written or written over while it is read, a table that is too short for
// max_length, ops over tokens after ops over sequences.
Status CheckProgram(const Program& program);

// Checks a batch for a program that CheckProgram passed.
// kInvalidArgument, field: inputs (an empty batch or sequence, one longer than max_length, an id
// outside the vocabulary), type_ids, offsets, pool_skip, out (not a sink for each sequence).
Status CheckBatch(const Program& program, const PackedBatch& batch, std::span<float* const> sinks);

}  // namespace penstock
