// What an encoder keeps in memory: weights packed for a backend, and how its layers are wired.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "formats/model_folder.h"
#include "formats/safetensors.h"
#include "models/architectures.h"
#include "models/product_types.h"
#include "tensor/backend.h"

namespace penstock {

struct EncoderLayer {
  std::unique_ptr<PackedLinear> qkv;            // [3 hidden, hidden]
  std::unique_ptr<PackedLinear> attention_out;  // [hidden, hidden]
  std::unique_ptr<PackedLinear> ff_in;          // [intermediate, hidden]; gated: the activated one
  std::unique_ptr<PackedLinear> ff_gate;        // the same, multiplied with; null if not gated
  std::unique_ptr<PackedLinear> ff_out;         // [hidden, intermediate]
  NormWeights attention_norm;                   // pre-norm: before attention; else after it
  NormWeights ff_norm;
  const float* rope_cos = nullptr;  // [max_tokens, rope_size / 2] or null
  const float* rope_sin = nullptr;
  int32_t window = 0;  // 0: all keys
};

// A linear map and what follows it.
struct DenseStep {
  std::unique_ptr<PackedLinear> linear;
  Activation activation = Activation::kNone;
  NormWeights norm;  // gamma null: none
};

struct EncoderWeights {
  // Of the tables of cos and sin together, and of a learned table of positions; both have a row for
  // each token a model may take.
  static constexpr uint64_t kRopeBytesMax = uint64_t{128} << 20;
  static constexpr uint64_t kPositionBytesMax = uint64_t{1} << 30;

  const Architecture* architecture = nullptr;
  Backend* backend = nullptr;
  std::vector<std::unique_ptr<Buffer>> buffers;  // what the pointers below point into

  const float* words = nullptr;      // [vocab, hidden]
  const float* positions = nullptr;  // [position_rows, hidden] or null
  const float* types = nullptr;      // [type_rows, hidden] or null
  int32_t vocab = 0;
  int32_t position_rows = 0;  // as many as the longest input needs
  int32_t type_rows = 0;
  int32_t position_padding = -1;  // kPadded: the padding token's id and row
  NormWeights embed_norm;
  std::vector<EncoderLayer> layers;
  NormWeights final_norm;
  const float* relative_bias = nullptr;  // [heads, 2 * bias_reach + 1] or null
  int32_t bias_reach = 0;
  int32_t hidden = 0;
  int32_t heads = 0;
  int32_t intermediate = 0;
  int32_t rope_size = 0;
  bool rope_interleaved = false;
  Activation activation = Activation::kGelu;

  std::vector<Pooling> pooling;  // embeddings: results side by side
  std::vector<DenseStep> dense;  // embeddings: after pooling
  Pooling head_pooling = Pooling::kCls;
  std::vector<DenseStep> head;  // logits: after head_pooling; empty: none
  uint64_t parameters = 0;
  uint64_t bytes = 0;
};

// Reads and packs the weights of `folder`; the products of its layers take `types`, those after
// pooling f32 (they are few, and nothing evens their errors out). Errors name the tensor or setting
// at fault; kPayloadTooLarge, field max_position_embeddings: the tables of positions are over their
// limits; kUnavailable: a file was cut while it was read.
Expected<std::unique_ptr<EncoderWeights>> LoadEncoderWeights(const ModelFolder& folder,
                                                             Backend* backend,
                                                             const ProductTypes& types);

// MPNet's bucket of key - query (transformers, MPNetEncoder.relative_position_bucket): 32 buckets,
// half for keys after the query; distances below 8 exact, then logarithmic up to 128.
int32_t RelativeBucket(int32_t distance);

}  // namespace penstock
