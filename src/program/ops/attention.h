// AttentionOp: each token over the tokens of its sequence, with a cache of keys and values or
// without.
#pragma once

#include <algorithm>
#include <limits>

#include "program/op_visitor.h"

namespace penstock::program {

inline constexpr int32_t kNoCache = -1;

struct AttentionShape {
  int32_t layer = kNoCache;  // of the cache, from 0
  int32_t heads = 0;
  int32_t kv_heads = 0;  // heads is a multiple: query head i reads kv head i / (heads / kv_heads)
  int32_t head_size = 0;
  float scale = 1;     // positive
  float soft_cap = 0;  // scores become cap * tanh(score / cap); 0: as they are
  int32_t window = 0;  // keys whose position is nearer than this are seen; 0: all
  // false: a query sees the keys after it as well (within the window), so that with a cache all
  // tokens of a sequence go through one step.
  bool causal = false;
  // The type of the model's linear layers. If it is not kF32, attention without a cache may
  // multiply in bf16.
  numbers::DType dtype = numbers::DType::kF32;
  // Rotary tables [positions, rope_size / 2], or null. The first rope_size dimensions of q and k
  // are rotated: pairs (i, i + rope_size / 2), or (2i, 2i + 1) when interleaved.
  const Table* rope_cos = nullptr;
  const Table* rope_sin = nullptr;
  // Of sequences longer than Program::rope_switch; the others above need no more rows than that.
  // null: the same.
  const Table* long_rope_cos = nullptr;
  const Table* long_rope_sin = nullptr;
  int32_t rope_size = 0;
  bool rope_interleaved = false;
  // [heads, 2 * reach + 1], or null. Added to the scaled score of key j for query i: column
  // clamp(j - i, -reach, reach) + reach.
  const Table* relative_bias = nullptr;
  Norm q_norm;  // of each head, before it is rotated; gamma [1, head_size] or null
  Norm k_norm;

  bool cached() const { return layer != kNoCache; }
};

// Which token of a sequence; kFirst: after PackedBatch::pool_skip.
enum class Pick : uint8_t { kAll, kFirst, kLast };

// q, k, v = norm(x) by a matrix each, or without matrices the columns of x, in this order and each
// heads * head_size or kv_heads * head_size wide. With a cache k and v of the batch's tokens are
// appended to it, and a token sees those before them. y: one row a token, heads * head_size wide,
// or with kFirst or kLast one a sequence, the result of that token alone.
struct AttentionOp {
  static constexpr const char* kName = "attention";

  ValueId x = kNoValue;
  Norm norm;
  const PackedLinear* q = nullptr;  // all three or none
  const PackedLinear* k = nullptr;
  const PackedLinear* v = nullptr;
  AttentionShape shape;
  Pick queries = Pick::kAll;
  ValueId y = kNoValue;

  bool projects() const { return q != nullptr || k != nullptr || v != nullptr; }

  template <typename V>
  void Describe(V& visitor) const {
    visitor.Read("x", x, Rows::kTokens);
    visitor.Differ("y", y, "x", x);
    visitor.Normalise("norm", norm, visitor.WidthOf(x));
    int32_t q_width = 0, k_width = 0, v_width = 0;
    if (projects()) {
      q_width = visitor.Multiply("q", q, x, visitor.WidthOf(x));
      k_width = visitor.Multiply("k", k, x, visitor.WidthOf(x));
      v_width = visitor.Multiply("v", v, x, visitor.WidthOf(x));
    } else {
      visitor.Require(norm.gamma == nullptr, "q, k and v have a norm and no matrix");
    }
    if (!visitor.Require(shape.heads > 0 && shape.kv_heads > 0 && shape.head_size > 0,
                         "there are no heads")) {
      return;
    }
    DescribeShape(visitor);
    const int32_t width = shape.heads * shape.head_size;
    const int32_t kv_width = shape.kv_heads * shape.head_size;
    if (projects()) {
      visitor.Require(q_width == width, "q does not fit its heads");
      visitor.Require(k_width == kv_width, "k does not fit its heads");
      visitor.Require(v_width == kv_width, "v does not fit its heads");
    } else {
      visitor.Require(visitor.WidthOf(x) == width + 2 * kv_width,
                      "x has width {}, its heads take {}", visitor.WidthOf(x),
                      width + 2 * kv_width);
    }
    if (queries == Pick::kFirst) visitor.Note("first token");
    if (queries == Pick::kLast) visitor.Note("last token");
    visitor.Compute([this](const BatchShape& batch) { return CostOf(batch); });
    visitor.Write("y", y, queries == Pick::kAll ? Rows::kTokens : Rows::kSequences, width);
  }

 private:
  template <typename V>
  void DescribeShape(V& visitor) const {
    visitor.Require(shape.heads % shape.kv_heads == 0, "heads is not a multiple of kv_heads");
    visitor.Require(shape.layer >= kNoCache, "the layer is negative");
    visitor.Require(!shape.cached() || shape.head_size % 2 == 0, "the head size is odd");
    visitor.Require(shape.scale > 0, "the scale must be positive");
    visitor.Require(shape.window >= 0 && shape.soft_cap >= 0, "the window or soft cap is negative");
    const bool two = shape.long_rope_cos != nullptr;
    visitor.Require(
        !two || (visitor.rope_switch() > 0 && shape.rope_cos != nullptr),
        "rotary tables for long sequences need a rope_switch and tables for short ones");
    DescribeRope(visitor, shape.rope_cos, shape.rope_sin, shape.rope_size, shape.head_size,
                 two ? visitor.rope_switch() : visitor.max_length());
    DescribeRope(visitor, shape.long_rope_cos, shape.long_rope_sin, shape.rope_size,
                 shape.head_size, visitor.max_length());
    visitor.Require(shape.relative_bias == nullptr || (shape.relative_bias->rows() == shape.heads &&
                                                       shape.relative_bias->width() % 2 == 1),
                    "the relative bias must be [heads, 2 * reach + 1]");
    if (shape.cached()) visitor.Note("layer {}", shape.layer);
    visitor.Note("{} heads of {}", shape.heads, shape.head_size);
    if (shape.cached() || shape.kv_heads != shape.heads) visitor.Note("{} kv", shape.kv_heads);
    visitor.Normalise("q norm", shape.q_norm, shape.head_size);
    visitor.Normalise("k norm", shape.k_norm, shape.head_size);
    if (shape.rope_cos != nullptr) visitor.Note("rotary {}", shape.rope_size);
    if (shape.relative_bias != nullptr) visitor.Note("relative bias");
    if (shape.window > 0) visitor.Note("window {}", shape.window);
    if (shape.cached() && !shape.causal) visitor.Note("both directions");
    DescribeSoftCap(visitor, shape.soft_cap);
    visitor.Use("", shape.relative_bias);
    // A step with a cache reads few of their rows.
    if (shape.cached()) return;
    for (const Table* rope : {shape.rope_cos, shape.rope_sin}) visitor.Use("", rope);
  }

  // q with k, and the weights with v; keys and values read and appended.
  Cost CostOf(const BatchShape& batch) const {
    const int64_t window =
        shape.window > 0 ? shape.window : std::numeric_limits<int64_t>::max() / 2;
    const int64_t past = shape.cached() ? batch.past : 0;
    const int64_t first = queries == Pick::kLast ? batch.length - 1 : 0;
    const int64_t end = queries == Pick::kFirst ? 1 : batch.length;
    double pairs = 0;  // queries and the keys they see
    for (int64_t i = first; i < end; ++i) {
      const int64_t after = shape.causal ? 0 : std::min(batch.length - 1 - i, window - 1);
      pairs += static_cast<double>(std::min(past + i + 1, window) + after);
    }
    Cost cost;
    cost.operations =
        4.0 * static_cast<double>(batch.sequences) * pairs * shape.heads * shape.head_size;
    if (!shape.cached()) return cost;
    const int64_t keys = std::min(past + batch.length, window + batch.length - 1);
    cost.cache_bytes = static_cast<uint64_t>(2 * batch.sequences * (keys + batch.length) *
                                             shape.kv_heads * shape.head_size * batch.cache_bytes);
    return cost;
  }
};

}  // namespace penstock::program
