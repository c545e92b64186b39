#include "families/decoder_config.h"

#include <cmath>
#include <string>

#include "families/decoder_readers.h"

namespace penstock::families {

const char* RopeScalingName(RopeScalingKind kind) {
  switch (kind) {
    case RopeScalingKind::kNone:
      return "none";
    case RopeScalingKind::kLinear:
      return "linear";
    case RopeScalingKind::kYarn:
      return "yarn";
    case RopeScalingKind::kLlama3:
      return "llama3";
    case RopeScalingKind::kLongrope:
      return "longrope";
  }
  return "?";
}

int64_t KvBytesPerToken(const DecoderConfig& config, int64_t value_bytes) {
  const int64_t values = int64_t{2} * config.kv_heads * config.head_size;
  return static_cast<int64_t>(config.layers.size()) * values * value_bytes;
}

float EmbeddingScale(const DecoderFamily& family, int32_t hidden_size) {
  if (!family.scaled_embedding) return 1;
  return static_cast<float>(std::sqrt(static_cast<double>(hidden_size)));
}

Status FinishDecoderConfig(const std::string& kv_heads_field, DecoderConfig* config) {
  if (config->heads % config->kv_heads != 0) {
    return Status::InvalidArgument(
        "'" + kv_heads_field + "': the " + std::to_string(config->heads) +
            " attention heads are not a multiple of " + std::to_string(config->kv_heads),
        kv_heads_field);
  }
  for (DecoderLayerConfig& layer : config->layers) {
    if (layer.window >= config->context) layer.window = 0;
  }
  return Status::Ok();
}

}  // namespace penstock::families
