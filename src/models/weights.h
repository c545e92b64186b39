// EncoderWeights: an encoder's tables and matrices, packed for a backend, and how its layers are
// wired. Programs (encoder_program.h) point into it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "families/encoder_family.h"
#include "program/backend.h"
#include "program/program.h"

namespace penstock::models {

struct EncoderLayer {
  std::unique_ptr<program::PackedLinear> qkv;            // [3 hidden, hidden]
  std::unique_ptr<program::PackedLinear> attention_out;  // [hidden, hidden]
  std::unique_ptr<program::PackedLinear> ff_in;  // [intermediate, hidden]; gated: the activated one
  std::unique_ptr<program::PackedLinear> ff_gate;  // the same, multiplied with; null if not gated
  std::unique_ptr<program::PackedLinear> ff_out;   // [hidden, intermediate]
  program::Norm attention_norm;                    // pre-norm: before attention; else after it
  program::Norm ff_norm;
  const program::Table* rope_cos = nullptr;  // [max_tokens, rope_size / 2] or null
  const program::Table* rope_sin = nullptr;
  int32_t window = 0;  // 0: all keys
};

// A linear layer, its activation and its norm.
struct DenseStep {
  std::unique_ptr<program::PackedLinear> linear;
  program::Activation activation = program::Activation::kNone;
  program::Norm norm;  // gamma null: none
};

struct EncoderWeights {
  const families::EncoderArchitecture* architecture = nullptr;
  program::Backend* backend = nullptr;
  std::vector<std::unique_ptr<program::Table>> tables;  // the Tables pointed to below

  const program::Table* words = nullptr;      // [vocab, hidden]
  const program::Table* positions = nullptr;  // as many rows as the longest input needs, or null
  const program::Table* types = nullptr;      // [type vocab, hidden] or null
  int32_t position_padding = -1;              // kPadded: the padding token's id and row
  program::Norm embed_norm;
  std::vector<EncoderLayer> layers;
  program::Norm final_norm;
  const program::Table* relative_bias = nullptr;  // [heads, 2 * reach + 1] or null
  int32_t max_tokens = 0;                         // of a sequence
  int32_t hidden = 0;
  int32_t heads = 0;
  int32_t rope_size = 0;
  bool rope_interleaved = false;
  program::Activation activation = program::Activation::kGelu;

  std::vector<program::Pooling> pooling;  // embeddings: results side by side
  std::vector<DenseStep> dense;           // embeddings: after pooling
  program::Pooling head_pooling = program::Pooling::kCls;
  std::vector<DenseStep> head;  // logits: after head_pooling; empty: none
  uint64_t parameters = 0;
  uint64_t bytes = 0;  // in memory
};

}  // namespace penstock::models
