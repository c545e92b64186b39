// Reads a model folder's tensors by the names its architecture gives them, and packs them for a
// backend. Tensors are converted a row at a time, never held in f32 as a whole.
#pragma once

#include <cstdint>
#include <memory>

#include "base/status.h"
#include "families/model_folder.h"
#include "models/linear_types.h"
#include "models/weights.h"
#include "program/backend.h"

namespace penstock::models {

// Limits of the cos and sin tables together, and of a learned position table; both have a row for
// each token of the longest input.
inline constexpr uint64_t kRopeBytesMax = uint64_t{128} << 20;
inline constexpr uint64_t kPositionBytesMax = uint64_t{1} << 30;

// The linear layers of `folder`'s encoder layers take `types`, those after pooling f32 (they are
// few, and nothing evens their errors out). Errors name the tensor or setting at fault;
// kPayloadTooLarge, field max_position_embeddings: the tables of positions are over their limits;
// kUnavailable: a file was cut while it was read.
Expected<std::unique_ptr<EncoderWeights>> LoadEncoderWeights(const families::ModelFolder& folder,
                                                             program::Backend* backend,
                                                             const LinearTypes& types);

// Pooling and dense modules of an embedding model, into `out`, whose backend and hidden are set.
Status LoadEmbeddingHead(const families::ModelFolder& folder, EncoderWeights* out);

// MPNet's bucket of key - query (transformers, MPNetEncoder.relative_position_bucket): 32 buckets,
// half for keys after the query; distances below 8 exact, then logarithmic up to 128.
int32_t RelativeBucket(int32_t distance);

}  // namespace penstock::models
