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
// A decoder's program reads and writes a cache of keys and values besides (program/step.h runs it):
//
//   lookup             %x = words[ids]
//   cached_attention   %context = attention(rope(norm(%x) [Wq Wk Wv]^T)), keys and values appended
//   residual_linear    %x = %x + %context W^T
//   gated_residual     %x = %x + (silu(norm(%x) Wg^T) * (norm(%x) Wu^T)) Wd^T
//   ...
//   logits             %logits = norm(picked rows of %x) W^T
//   states             %states = norm(picked rows of %x), in place of logits
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

#include "common/kv_block.h"
#include "common/status.h"
#include "numbers/dtype.h"
#include "program/op_kinds.h"
#include "program/packed_batch.h"

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

// kLayer: (x - mean) / sqrt(variance + epsilon) gamma + beta. kRms, of decoders' ops only:
// x / sqrt(mean of squares + epsilon) gamma.
enum class NormKind : uint8_t { kLayer, kRms };

// gamma null: none. Tables are [1, width]; beta may be null, and is in kRms.
struct Norm {
  const Table* gamma = nullptr;
  const Table* beta = nullptr;
  float epsilon = 0;
  NormKind kind = NormKind::kLayer;
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

// Ops of decoders. Rows::kTokens are the tokens of a step, Rows::kSequences those of them whose
// logits or states are asked for. Norms are kRms, before the linear layers that read x.

// y = scale * words[id].
struct LookupOp {
  const PackedLinear* words = nullptr;  // [vocabulary, width]
  float scale = 1;
  ValueId y = kNoValue;
};

struct CachedAttentionShape {
  int32_t layer = 0;  // of the cache, from 0
  int32_t heads = 0;
  int32_t kv_heads = 0;  // heads is a multiple: query head i reads kv head i / (heads / kv_heads)
  int32_t head_size = 0;
  float scale = 1;
  float soft_cap = 0;  // scores become cap * tanh(score / cap); 0: as they are
  int32_t window = 0;  // keys with position of the query - that of the key < window; 0: all
  // false: a query sees the keys after it as well (within the window), so that all tokens of a
  // sequence go through one step. Of embedding models.
  bool causal = true;
  // As in AttentionShape; null: this layer does not rotate.
  const Table* rope_cos = nullptr;
  const Table* rope_sin = nullptr;
  // Of sequences longer than Program::rope_switch; the others above need no more rows than that.
  // null: the same.
  const Table* long_rope_cos = nullptr;
  const Table* long_rope_sin = nullptr;
  int32_t rope_size = 0;
  bool rope_interleaved = false;
  Norm q_norm;  // of each head, before it is rotated; gamma [1, head_size] or null
  Norm k_norm;
};

// q, k, v = norm(x) by a matrix each; k and v of this step's tokens are appended to the cache, then
// y = attention of each token over the cached tokens of its sequence up to itself.
struct CachedAttentionOp {
  ValueId x = kNoValue;
  Norm norm;
  const PackedLinear* q = nullptr;  // [heads * head_size, width of x]
  const PackedLinear* k = nullptr;  // [kv_heads * head_size, width of x]
  const PackedLinear* v = nullptr;
  CachedAttentionShape shape;
  ValueId y = kNoValue;  // width heads * head_size
};

// y = residual + scale * norm(x W^T + bias). y may be the residual.
struct ResidualLinearOp {
  ValueId x = kNoValue;
  const PackedLinear* weight = nullptr;
  Norm norm;
  float scale = 1;
  ValueId residual = kNoValue;
  ValueId y = kNoValue;
};

// y = residual + scale * out_norm((activation(n gate^T) * (n up^T)) down^T), where n = norm(x). y
// may be the residual or x.
struct GatedResidualOp {
  ValueId x = kNoValue;
  Norm norm;
  const PackedLinear* gate = nullptr;
  const PackedLinear* up = nullptr;
  Activation activation = Activation::kSilu;
  const PackedLinear* down = nullptr;
  Norm out_norm;
  float scale = 1;
  ValueId residual = kNoValue;
  ValueId y = kNoValue;
};

// y = cap(scale * norm(x) W^T), of the rows whose logits are asked for; cap as soft_cap above.
struct LogitsOp {
  ValueId x = kNoValue;  // rows of tokens
  Norm norm;
  const PackedLinear* weight = nullptr;  // [vocabulary, width of x]
  float scale = 1;
  float soft_cap = 0;
  ValueId y = kNoValue;  // rows of sequences
};

// y = norm(x) of the rows that are asked for: hidden states, of models that embed or score.
struct StatesOp {
  ValueId x = kNoValue;  // rows of tokens
  Norm norm;
  ValueId y = kNoValue;  // rows of sequences
};

using Op = std::variant<EmbedOp, InputOp, NormOp, LinearOp, LinearNormOp, FeedForwardOp,
                        AttentionOp, PoolOp, LookupOp, CachedAttentionOp, ResidualLinearOp,
                        GatedResidualOp, LogitsOp, StatesOp>;

// Whether an op belongs to decoders; a program has either such ops or others.
bool IsStepOp(const Op& op);

struct Program {
  int32_t max_length = 0;  // tokens of the longest sequence, cached ones included
  // Of decoders. Sequences of more tokens are rotated by the tables for long ones; 0: there are no
  // such tables.
  int32_t rope_switch = 0;
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

// The groups of a decoder's cache: a full one, and one for layers with a window, of the longest
// window, if it is causal and has such layers.
std::vector<CacheGroup> CacheGroups(const Program& program);
// The group of a layer's keys and values among `groups`, which begin with those of its program.
size_t CacheGroupOf(const CachedAttentionShape& shape, std::span<const CacheGroup> groups);

// kInternal names the op at fault: an id without a value, widths or rows that do not fit, a value
// read before it is written or written over while it is read, a table that is too short for
// max_length, ops over tokens after ops over sequences.
Status CheckProgram(const Program& program);

// Checks a batch for a program that CheckProgram passed.
// kInvalidArgument, field: inputs (an empty batch or sequence, one longer than max_length, an id
// outside the vocabulary), type_ids, offsets, pool_skip, out (not a sink for each sequence).
Status CheckBatch(const Program& program, const PackedBatch& batch, std::span<float* const> sinks);

}  // namespace penstock
