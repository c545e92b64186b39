// Qwen 2: q, k and v have biases. Qwen 3: none, but norms on the heads of queries and keys.
#include <string>

#include "families/decoder_family.h"
#include "families/decoder_json.h"

namespace penstock::families {
namespace {

bool HasQwenWindow(const WindowSettings& settings, const DecoderLayerConfig&, size_t index) {
  return index >= settings.full_first;
}

// gte-Qwen2 changes Qwen 2 by code in the model's folder: it attends in both directions.
Expected<bool> IsGteQwen2(const JsonSource& from) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject classes, from.file.GetObjectOrEmpty("auto_map"));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string name, classes.GetStringOr("AutoModel", ""));
  return name.ends_with("modeling_qwen.Qwen2Model");
}

}  // namespace

extern constexpr DecoderFamily kQwen2 = {
    .name = "qwen2",
    .model_type = "qwen2",
    .defaults = {.vocab_size = 151936,
                 .hidden_size = 4096,
                 .intermediate_size = 22016,
                 .layers = 32,
                 .heads = 32,
                 .kv_heads = 32,
                 .context = 32768,
                 .window = 4096},
    .qkv_bias = true,
    .has_window = HasQwenWindow,
    .layer_types = true,
    .use_sliding_window = true,
    .attends_both_ways = IsGteQwen2,
    .gguf = {.name = "qwen2"},
};

extern constexpr DecoderFamily kQwen3 = {
    .name = "qwen3",
    .model_type = "qwen3",
    .defaults = {.vocab_size = 151936,
                 .hidden_size = 4096,
                 .intermediate_size = 22016,
                 .layers = 32,
                 .heads = 32,
                 .kv_heads = 32,
                 .head_size = 128,
                 .context = 32768,
                 .window = 4096},
    .tensors = {.q_norm = "self_attn.q_norm", .k_norm = "self_attn.k_norm"},
    .attention_bias = true,
    .has_window = HasQwenWindow,
    .layer_types = true,
    .use_sliding_window = true,
    .reranks_by_name = true,
    .gguf = {.name = "qwen3"},
};

}  // namespace penstock::families
