// What the readers of encoders' config.json share; each family's own is in families/NAME.cc.
//
// Field names and defaults: the configuration classes of huggingface/transformers, 4 and 5.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "families/config_fields.h"
#include "families/model_folder.h"
#include "json/json.h"

namespace penstock::families {

// Limits: far above any known encoder, low enough that products of two fit 64 bits with ease.
inline constexpr int64_t kEncoderVocabularyMax = 1 << 24;
inline constexpr int64_t kEncoderHiddenMax = 1 << 16;
inline constexpr int64_t kEncoderLayersMax = 1024;
inline constexpr int64_t kEncoderHeadsMax = 1024;
inline constexpr int64_t kEncoderIntermediateMax = 1 << 20;
inline constexpr int64_t kEncoderPositionsMax = 1 << 24;
inline constexpr int64_t kEncoderLabelsMax = 1 << 20;

// What transformers takes where a field is absent.
struct EncoderDefaults {
  int32_t vocab_size = 0, hidden_size = 768, layers = 12, heads = 12, intermediate_size = 3072;
  int32_t positions = 512;
  int32_t types = 0;
  int32_t pad = 0;
  double norm_epsilon = 1e-12;
};

// Settings that all families have, each by its newer and, if any, its older name.
Status ReadEncoderSizes(const JsonObject& config, const EncoderDefaults& d, EncoderConfig* out);

// Refuses a position_embedding_type that is not among `supported`, whose first is the default.
Status RefuseEncoderPositions(const JsonObject& config, FieldNames supported);

// The sizes, with learned positions and "hidden_act": BERT and what is built like it.
Status ReadBertLike(const JsonObject& config, const EncoderDefaults& defaults, EncoderConfig* out);

// theta of rope_parameters (or of the older rope_scaling), if it is the plain kind.
Status ReadPlainRope(const JsonObject& rope, double absent, float* theta);

}  // namespace penstock::families
