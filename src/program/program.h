// Program: what a model computes over a batch, as data. A model writes it once; a Backend decides
// how: on which threads, in which order of rows, where values lie in memory.
//
//   embed          %x = norm(words[ids] + positions + types)
//   linear         %qkv = %x W^T + b
//   attention      %context = attention(%qkv)
//   linear         %x = norm(%x + %context W^T + b)
//   feed_forward   %x = norm(%x + out(gelu(in(%x))))
//   ...
//   pool           %pooled = mean of each sequence of %x
//
// A decoder's program has a cache of keys and values (program/packed_batch.h):
//
//   embed          %x = words[ids]
//   attention      %context = attention(rope(norm(%x) [Wq Wk Wv]^T)), keys and values appended
//   linear         %x = %x + %context W^T
//   feed_forward   %x = %x + (silu(norm(%x) Wg^T) * (norm(%x) Wu^T)) Wd^T
//   ...
//   picks          %logits = norm(picked rows of %x) W^T, or the hidden states of these rows
//
// The operations are in program/ops/, each with what it computes and what it says about itself
// (op_visitor.h). A backend need not run every setting of every operation; it refuses the others by
// name when it prepares a program.
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

#include "base/kv_block.h"
#include "base/status.h"
#include "program/op_parts.h"
#include "program/ops/attention.h"
#include "program/ops/embed.h"
#include "program/ops/feed_forward.h"
#include "program/ops/linear.h"
#include "program/ops/picks.h"
#include "program/ops/rows.h"

namespace penstock::program {

using Op =
    std::variant<EmbedOp, InputOp, NormOp, LinearOp, FeedForwardOp, AttentionOp, PoolOp, PicksOp>;

struct Program {
  int32_t max_length = 0;  // tokens of the longest sequence, cached ones included
  // Sequences of more tokens are rotated by the tables for long ones; 0: there are no
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

// "embed", "feed_forward", ...
const char* OpName(const Op& op);
// The matrices an op multiplies by, in their order.
std::vector<const PackedLinear*> WeightsOf(const Op& op);
// Whether an op reads rows of sequences; such ops come after all others.
bool ReadsSequences(const Program& program, const Op& op);
// Whether an op, or any of a program, keeps keys and values: a decoder's, which goes on where the
// last batch of a sequence ended.
bool UsesCache(const Op& op);
bool UsesCache(const Program& program);
// The type that the first matrix is multiplied in; kF32 without one.
numbers::DType LayerDType(const Program& program);
// The first op of that kind; or null.
template <typename T>
const T* FirstOp(const Program& program) {
  for (const Op& op : program.ops) {
    if (const T* found = std::get_if<T>(&op)) return found;
  }
  return nullptr;
}

// The groups of a decoder's cache: a full one, and one for layers with a window, of the longest
// window, if it is causal and has such layers.
std::vector<CacheGroup> CacheGroups(const Program& program);
// The group of a layer's keys and values among `groups`, which begin with those of its program.
size_t CacheGroupOf(const AttentionShape& shape, std::span<const CacheGroup> groups);

// kInternal names the op at fault: an id without a value, widths or rows that do not fit, a value
// read before it is written or written over while it is read, a table that is too short for
// max_length, ops over tokens after ops over sequences.
Status CheckProgram(const Program& program);

}  // namespace penstock::program
