// EncoderWeights: an encoder's tables and matrices, packed for a backend, and how its layers are
// wired. Programs (encoder_program.h) point into it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "families/encoder_family.h"
#include "program/backend.h"
#include "program/program.h"

namespace penstock {

struct EncoderLayer {
  std::unique_ptr<PackedLinear> qkv;            // [3 hidden, hidden]
  std::unique_ptr<PackedLinear> attention_out;  // [hidden, hidden]
  std::unique_ptr<PackedLinear> ff_in;          // [intermediate, hidden]; gated: the activated one
  std::unique_ptr<PackedLinear> ff_gate;        // the same, multiplied with; null if not gated
  std::unique_ptr<PackedLinear> ff_out;         // [hidden, intermediate]
  Norm attention_norm;                          // pre-norm: before attention; else after it
  Norm ff_norm;
  const Table* rope_cos = nullptr;  // [max_tokens, rope_size / 2] or null
  const Table* rope_sin = nullptr;
  int32_t window = 0;  // 0: all keys
};

// A linear layer, its activation and its norm.
struct DenseStep {
  std::unique_ptr<PackedLinear> linear;
  Activation activation = Activation::kNone;
  Norm norm;  // gamma null: none
};

struct EncoderWeights {
  const EncoderArchitecture* architecture = nullptr;
  Backend* backend = nullptr;
  std::vector<std::unique_ptr<Table>> tables;  // the Tables pointed to below

  const Table* words = nullptr;      // [vocab, hidden]
  const Table* positions = nullptr;  // as many rows as the longest input needs, or null
  const Table* types = nullptr;      // [type vocab, hidden] or null
  int32_t position_padding = -1;     // kPadded: the padding token's id and row
  Norm embed_norm;
  std::vector<EncoderLayer> layers;
  Norm final_norm;
  const Table* relative_bias = nullptr;  // [heads, 2 * reach + 1] or null
  int32_t max_tokens = 0;                // of a sequence
  int32_t hidden = 0;
  int32_t heads = 0;
  int32_t rope_size = 0;
  bool rope_interleaved = false;
  Activation activation = Activation::kGelu;

  std::vector<Pooling> pooling;  // embeddings: results side by side
  std::vector<DenseStep> dense;  // embeddings: after pooling
  Pooling head_pooling = Pooling::kCls;
  std::vector<DenseStep> head;  // logits: after head_pooling; empty: none
  uint64_t parameters = 0;
  uint64_t bytes = 0;  // in memory
};

}  // namespace penstock
