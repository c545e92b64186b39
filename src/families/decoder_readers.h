// The parts of DecoderFiles::Open: configurations from either format, and the tensors that go with
// them. Others use families/decoder_files.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "families/decoder_config.h"
#include "families/decoder_family.h"
#include "families/decoder_files.h"
#include "files/tensor_store.h"
#include "json/json.h"

namespace penstock::families {

inline constexpr double kMultiplierMin = 1e-9, kMultiplierMax = 1e9;  // of settings that scale

enum class Bias { kNone, kRequired, kIfThere };

// Which tensors a model has besides those that all have.
struct DecoderWiring {
  const DecoderFamily* family = nullptr;
  bool gguf = false;  // the names of tensors
  Bias qkv_bias = Bias::kNone;
  Bias attention_out_bias = Bias::kNone;
  Bias ff_bias = Bias::kNone;
  bool tied = false;  // the output is the embedding; of GGUF: where there is no other
  DecoderUse use = DecoderUse::kGenerate;
};

struct DecoderReading {
  DecoderConfig config;
  DecoderWiring wiring;
};

// config.json. end_ids are those that it names.
Expected<DecoderReading> ReadDecoderJson(const JsonObject& config,
                                         DecoderUse use = DecoderUse::kGenerate);

// The metadata of `store`, which is a GGUF file's, its rope factors, and the rows of its embedding.
Expected<DecoderReading> ReadDecoderGguf(const files::TensorStore& store,
                                         DecoderUse use = DecoderUse::kGenerate);

// The keys general.sampling.*.
Expected<SamplingKeys> ReadSamplingKeys(const files::GgufMetadata& metadata);

// DecoderConfig::embedding_scale.
float EmbeddingScale(const DecoderFamily& family, int32_t hidden_size);

// `eos_token_id` of config.json and generation_config.json: a number or a list; -1 and null are
// none. `absent` is taken where the field is not there and lies below `vocabulary`.
Status ReadEndIds(const JsonObject& config, int32_t absent, int32_t vocabulary,
                  std::vector<int32_t>* ids);

// What does not depend on the format, once all else is read: heads that must fit each other, and
// windows that are none. Errors name `kv_heads_field`.
Status FinishDecoderConfig(const std::string& kv_heads_field, DecoderConfig* config);

// Finds and checks all tensors; sets `tensors`, `parameters` and `unused_tensors` of `files`.
Status FindDecoderTensors(const DecoderWiring& wiring, DecoderFiles* files);

}  // namespace penstock::families
