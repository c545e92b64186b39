// config.json -> DecoderConfig.
//
// Field names and defaults: the configuration classes of huggingface/transformers, 4.57 and 5;
// where the two read a file differently, 5.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>

#include "formats/config_fields.h"
#include "formats/decoder_readers.h"
#include "formats/decoder_rope.h"

namespace penstock {
namespace {

constexpr double kMultiplierMin = 1e-9, kMultiplierMax = 1e9;
constexpr double kSoftCapMax = 1e6;

struct Defaults {
  std::string_view architecture;
  int32_t vocab_size, hidden_size, intermediate_size, layers, heads;
  int32_t kv_heads;   // 0: as many as heads
  int32_t head_size;  // 0: hidden_size / heads
  int32_t context;
  double rms_epsilon, rope_theta;
  bool tied;
  int32_t bos, eos, pad;  // -1: none
  int32_t window = 0;     // sliding_window; 0: none
};

constexpr std::array kDefaults = {
    Defaults{"llama", 32000, 4096, 11008, 32, 32, 0, 0, 2048, 1e-6, 1e4, false, 1, 2, -1},
    Defaults{"mistral", 32000, 4096, 14336, 32, 32, 8, 0, 131072, 1e-6, 1e4, false, 1, 2, -1, 4096},
    Defaults{"granite", 32000, 4096, 11008, 32, 32, 0, 0, 2048, 1e-6, 1e4, false, 1, 2, -1},
    Defaults{"smollm3", 128256, 2048, 11008, 36, 16, 4, 0, 32768, 1e-6, 2e6, true, 128000, 128001,
             128004},
    Defaults{"qwen2", 151936, 4096, 22016, 32, 32, 32, 0, 32768, 1e-6, 1e4, false, -1, -1, -1,
             4096},
    Defaults{"qwen3", 151936, 4096, 22016, 32, 32, 32, 128, 32768, 1e-6, 1e4, false, -1, -1, -1,
             4096},
    Defaults{"gemma2", 256000, 2304, 9216, 26, 8, 4, 256, 8192, 1e-6, 1e4, true, 2, 1, 0, 4096},
    Defaults{"gemma3", 262208, 2304, 9216, 26, 8, 4, 256, 131072, 1e-6, 1e6, true, 2, 1, 0, 4096},
    Defaults{"phi3", 32064, 3072, 8192, 32, 32, 0, 0, 4096, 1e-5, 1e4, false, 1, 32000, 32000},
};
constexpr double kGemma3LocalTheta = 1e4;
constexpr int32_t kPhi3OriginalPositions = 4096;

const Defaults& DefaultsOf(std::string_view architecture) {
  const auto found = std::find_if(kDefaults.begin(), kDefaults.end(), [&](const Defaults& d) {
    return d.architecture == architecture;
  });
  PENSTOCK_CHECK(found != kDefaults.end());
  return *found;
}

// Whether the field is written, be it as null: some settings have a default, and null means none.
bool IsWritten(const JsonObject& config, std::string_view key) {
  bool written = false;
  config.ForEach([&](std::string_view name, simdjson::dom::element) { written |= name == key; });
  return written;
}

// A model's config.json: `model` has the settings of the text model, which lie in text_config where
// the file is of a model with images; `file` is the whole.
struct Source {
  const JsonObject& model;
  const JsonObject& file;
  const DecoderArchitecture& architecture;
  const Defaults& defaults;

  bool Is(std::string_view name) const { return architecture.name == name; }
  // For settings that either may have.
  const JsonObject& With(std::string_view key) const {
    return IsWritten(model, key) || !IsWritten(file, key) ? model : file;
  }
};

Status ReadSizes(const Source& from, DecoderConfig* out) {
  const JsonObject& config = from.model;
  const Defaults& d = from.defaults;
  PENSTOCK_RETURN_IF_ERROR(
      ReadInt(config, {"vocab_size"}, d.vocab_size, 1, kDecoderVocabularyMax, &out->vocab_size));
  PENSTOCK_RETURN_IF_ERROR(
      ReadInt(config, {"hidden_size"}, d.hidden_size, 1, kDecoderHiddenMax, &out->hidden_size));
  PENSTOCK_RETURN_IF_ERROR(ReadInt(config, {"intermediate_size"}, d.intermediate_size, 1,
                                   kDecoderIntermediateMax, &out->intermediate_size));
  int32_t layers = 0;
  PENSTOCK_RETURN_IF_ERROR(
      ReadInt(config, {"num_hidden_layers"}, d.layers, 1, kDecoderLayersMax, &layers));
  out->layers.resize(static_cast<size_t>(layers));
  PENSTOCK_RETURN_IF_ERROR(
      ReadInt(config, {"num_attention_heads"}, d.heads, 1, kDecoderHeadsMax, &out->heads));
  const bool as_heads = d.kv_heads == 0 || IsWritten(config, "num_key_value_heads");
  PENSTOCK_RETURN_IF_ERROR(ReadInt(config, {"num_key_value_heads"},
                                   as_heads ? out->heads : d.kv_heads, 1, kDecoderHeadsMax,
                                   &out->kv_heads));
  if (!config.Has("head_dim") && d.head_size == 0 && out->hidden_size % out->heads != 0) {
    return Status::InvalidArgument("'hidden_size' " + std::to_string(out->hidden_size) +
                                       " is not a multiple of the " + std::to_string(out->heads) +
                                       " attention heads, and there is no head_dim",
                                   "hidden_size");
  }
  PENSTOCK_RETURN_IF_ERROR(ReadInt(config, {"head_dim"},
                                   d.head_size > 0 ? d.head_size : out->hidden_size / out->heads, 1,
                                   kDecoderHeadSizeMax, &out->head_size));
  PENSTOCK_RETURN_IF_ERROR(ReadInt(config, {"max_position_embeddings"}, d.context, 1,
                                   kDecoderContextMax, &out->context));
  return ReadFloat(config, {"rms_norm_eps"}, d.rms_epsilon, 0, 1, &out->rms_epsilon);
}

// ---- Rotary embeddings

Expected<JsonObject> RopeObject(const JsonObject& config) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject older, config.GetObjectOrEmpty("rope_scaling"));
  bool empty = true;
  older.ForEach([&](std::string_view, simdjson::dom::element) { empty = false; });
  if (!empty) return older;
  return config.GetObjectOrEmpty("rope_parameters");
}

// The theta of `rope`, else that of `config`.
Expected<double> ReadTheta(const JsonObject& rope, const JsonObject& config,
                           std::string_view flat_key, double absent) {
  PENSTOCK_ASSIGN_OR_RETURN(const double flat,
                            config.GetNumberOr(flat_key, absent, 1.001, kRopeThetaMax));
  return rope.GetNumberOr("rope_theta", flat, 1.001, kRopeThetaMax);
}

Status ReadRopeSize(const Source& from, const JsonObject& rope, DecoderConfig* out) {
  const std::string_view key = "partial_rotary_factor";
  const JsonObject& place = rope.Has(key) ? rope : from.model;
  PENSTOCK_ASSIGN_OR_RETURN(const double share, place.GetNumberOr(key, 1, 1e-3, 1));
  if (share != 1 && !from.Is("phi3")) {
    return Status::Unsupported("'" + place.PathOf(key) + "' is supported for phi3 only",
                               place.PathOf(key));
  }
  out->rope_size = static_cast<int32_t>(out->head_size * share);
  if (out->rope_size % 2 == 0 && out->rope_size > 0) return Status::Ok();
  return Status::InvalidArgument("heads of " + std::to_string(out->head_size) +
                                     " values have a rotated part of " +
                                     std::to_string(out->rope_size) + "; it must be even",
                                 share == 1 ? "head_dim" : place.PathOf(key));
}

Status ReadRope(const Source& from, const JsonObject& rope, double theta, DecoderConfig* out) {
  PENSTOCK_RETURN_IF_ERROR(ReadRopeSize(from, rope, out));
  RopeSurroundings around = {theta, out->rope_size, out->context};
  PENSTOCK_RETURN_IF_ERROR(ReadInt(from.model, {"original_max_position_embeddings"},
                                   from.Is("phi3") ? kPhi3OriginalPositions : 0, 1,
                                   kDecoderContextMax, &around.original_positions));
  around.yarn_is_longrope = from.Is("phi3");
  PENSTOCK_ASSIGN_OR_RETURN(out->rope_scaling, ReadRopeScaling(rope, around));
  out->context = ContextWithYarn(out->rope_scaling, out->context);
  for (DecoderLayerConfig& layer : out->layers) layer.rope_theta = static_cast<float>(theta);
  return Status::Ok();
}

// Gemma 3 has its scaling for the global layers, and another theta for those with a window. Newer
// files have an object for either kind.
Status ReadGemma3Rope(const Source& from, DecoderConfig* out) {
  const JsonObject& config = from.model;
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject newer, config.GetObjectOrEmpty("rope_parameters"));
  if (newer.Has("rope_theta") || newer.Has("rope_type")) {
    return Status::Unsupported(
        "'rope_parameters' of gemma3 must name full_attention and sliding_attention",
        config.PathOf("rope_parameters"));
  }
  PENSTOCK_ASSIGN_OR_RETURN(JsonObject full, newer.GetObjectOrEmpty("full_attention"));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject local, newer.GetObjectOrEmpty("sliding_attention"));
  if (config.Has("rope_scaling")) {
    PENSTOCK_ASSIGN_OR_RETURN(full, config.GetObject("rope_scaling"));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const double theta,
                            ReadTheta(full, config, "rope_theta", from.defaults.rope_theta));
  PENSTOCK_ASSIGN_OR_RETURN(const double local_theta,
                            ReadTheta(local, config, "rope_local_base_freq", kGemma3LocalTheta));
  const std::string_view type = PresentField(local, {"rope_type", "type"});
  PENSTOCK_ASSIGN_OR_RETURN(const std::string name, local.GetStringOr(type, "default"));
  if (name != "default") {
    return Status::Unsupported("'" + local.PathOf(type) + "': rotary scaling of layers with a " +
                                   "window is not supported, but is '" + name + "'",
                               local.PathOf(type));
  }
  PENSTOCK_RETURN_IF_ERROR(ReadRope(from, full, theta, out));
  for (DecoderLayerConfig& layer : out->layers) {
    if (layer.window == 0) continue;
    layer.rope_theta = static_cast<float>(local_theta);
    layer.rope_scaled = false;
  }
  return Status::Ok();
}

// ---- Layers: windows, and those without rotary embedding

// layer_types: which layers have a window. Absent: nothing.
Expected<std::vector<bool>> LayerTypes(const JsonObject& config, size_t layers) {
  PENSTOCK_ASSIGN_OR_RETURN(
      const auto types,
      config.GetStringsOrEmpty("layer_types", static_cast<size_t>(kDecoderLayersMax)));
  std::vector<bool> windowed;
  for (const std::string& type : types) {
    if (type != "full_attention" && type != "sliding_attention") {
      return Status::Unsupported(
          "'" + config.PathOf("layer_types") + "': '" + type + "' is not supported",
          config.PathOf("layer_types"));
    }
    windowed.push_back(type == "sliding_attention");
  }
  if (windowed.empty() || windowed.size() == layers) return windowed;
  return Status::InvalidArgument("'" + config.PathOf("layer_types") + "' has " +
                                     std::to_string(types.size()) + " entries for " +
                                     std::to_string(layers) + " layers",
                                 config.PathOf("layer_types"));
}

// sliding_window; 0: none.
Status ReadWindow(const JsonObject& config, int32_t absent, int32_t* window) {
  const bool none = IsWritten(config, "sliding_window") && !config.Has("sliding_window");
  return ReadInt(config, {"sliding_window"}, none ? 0 : absent, 1, kDecoderContextMax, window);
}

// no_rope_layers has a 1 for each layer that is rotated.
Status ReadNoRopeLayers(const JsonObject& config, DecoderConfig* out) {
  const std::string_view key = "no_rope_layers";
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t interval,
                            config.GetIntOr("no_rope_layer_interval", 4, 1, kDecoderLayersMax));
  if (!config.Has(key)) {
    for (size_t i = 0; i < out->layers.size(); ++i) {
      out->layers[i].rope = (i + 1) % static_cast<size_t>(interval) != 0;
    }
    return Status::Ok();
  }
  PENSTOCK_ASSIGN_OR_RETURN(const auto rotated,
                            config.GetArray(key, 4 * static_cast<size_t>(kDecoderLayersMax)));
  if (rotated.size() < out->layers.size()) {
    return Status::InvalidArgument("'" + config.PathOf(key) + "' has " +
                                       std::to_string(rotated.size()) + " entries for " +
                                       std::to_string(out->layers.size()) + " layers",
                                   config.PathOf(key));
  }
  size_t i = 0;
  for (const simdjson::dom::element value : rotated) {
    int64_t flag = 0;
    if (value.get(flag) != simdjson::SUCCESS || flag < 0 || flag > 1) {
      return Status::InvalidArgument("'" + config.PathOf(key) + "' must have 0 and 1 only",
                                     config.PathOf(key));
    }
    if (i < out->layers.size()) out->layers[i++].rope = flag == 1;
  }
  return Status::Ok();
}

Status ReadLayers(const Source& from, DecoderConfig* out) {
  const JsonObject& config = from.model;
  if (from.Is("smollm3")) PENSTOCK_RETURN_IF_ERROR(ReadNoRopeLayers(config, out));
  if (from.Is("llama") || from.Is("granite")) return Status::Ok();
  if (from.Is("mistral")) PENSTOCK_RETURN_IF_ERROR(RefuseIfSet(config, {"layer_types"}));
  int32_t window = 0;
  PENSTOCK_RETURN_IF_ERROR(ReadWindow(config, from.defaults.window, &window));
  const bool by_flag = from.Is("qwen2") || from.Is("qwen3") || from.Is("smollm3");
  PENSTOCK_ASSIGN_OR_RETURN(const bool flag, config.GetBoolOr("use_sliding_window", false));
  if (by_flag && !flag) window = 0;
  PENSTOCK_ASSIGN_OR_RETURN(
      const int64_t full_first,
      config.GetIntOr("max_window_layers", 28, 0, std::numeric_limits<int32_t>::max()));
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t pattern,
                            config.GetIntOr("sliding_window_pattern", 6, 1, kDecoderLayersMax));
  std::vector<bool> windowed;
  if (!from.Is("mistral") && !from.Is("phi3")) {
    PENSTOCK_ASSIGN_OR_RETURN(windowed, LayerTypes(config, out->layers.size()));
  }
  for (size_t i = 0; i < out->layers.size(); ++i) {
    DecoderLayerConfig& layer = out->layers[i];
    bool here = true;  // mistral, phi3
    if (!windowed.empty()) {
      here = windowed[i];
    } else if (from.Is("gemma2") || from.Is("gemma3")) {
      here = (i + 1) % static_cast<size_t>(from.Is("gemma2") ? 2 : pattern) != 0;
    } else if (from.Is("smollm3")) {
      here = !layer.rope;
    } else if (by_flag) {
      here = i >= static_cast<size_t>(full_first);
    }
    layer.window = here ? window : 0;
  }
  return Status::Ok();
}

// ---- Scales, caps and the activation

Status ReadCap(const JsonObject& config, std::string_view key, double absent, float* cap) {
  const bool none = IsWritten(config, key) && !config.Has(key);
  return ReadFloat(config, {key}, none ? 0 : absent, kMultiplierMin, kSoftCapMax, cap);
}

Status ReadScales(const Source& from, DecoderConfig* out) {
  const JsonObject& config = from.model;
  out->attention_scale = static_cast<float>(1 / std::sqrt(static_cast<double>(out->head_size)));
  if (from.architecture.post_norms) {
    const bool gemma2 = from.Is("gemma2");
    out->unit_offset_norms = true;
    out->embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(out->hidden_size)));
    PENSTOCK_ASSIGN_OR_RETURN(const double scalar,
                              config.GetNumberOr("query_pre_attn_scalar", 256, 1e-3, 1e9));
    out->attention_scale = static_cast<float>(1 / std::sqrt(scalar));
    PENSTOCK_RETURN_IF_ERROR(
        ReadCap(config, "attn_logit_softcapping", gemma2 ? 50 : 0, &out->attention_soft_cap));
    PENSTOCK_RETURN_IF_ERROR(
        ReadCap(config, "final_logit_softcapping", gemma2 ? 30 : 0, &out->logit_soft_cap));
    return ReadActivation(config, "hidden_activation", "gelu_pytorch_tanh", &out->activation);
  }
  if (from.Is("granite")) {
    const auto read = [&](std::string_view key, float* to) {
      return ReadFloat(config, {key}, 1, kMultiplierMin, kMultiplierMax, to);
    };
    PENSTOCK_RETURN_IF_ERROR(read("embedding_multiplier", &out->embedding_scale));
    PENSTOCK_RETURN_IF_ERROR(read("residual_multiplier", &out->residual_scale));
    PENSTOCK_RETURN_IF_ERROR(read("attention_multiplier", &out->attention_scale));
    float divisor = 1;
    PENSTOCK_RETURN_IF_ERROR(read("logits_scaling", &divisor));
    out->logit_scale = 1 / divisor;
  }
  return ReadActivation(config, "hidden_act", "silu", &out->activation);
}

// ---- Tokens

Status ReadTokenId(const JsonObject& config, std::string_view key, int32_t absent,
                   int32_t vocabulary, int32_t* id) {
  const bool none = IsWritten(config, key) || absent >= vocabulary;
  return ReadInt(config, {key}, none ? -1 : absent, -1, vocabulary - 1, id);
}

Status ReadTokens(const Source& from, DecoderConfig* out) {
  const Defaults& d = from.defaults;
  PENSTOCK_RETURN_IF_ERROR(
      ReadTokenId(from.With("bos_token_id"), "bos_token_id", d.bos, out->vocab_size, &out->bos_id));
  PENSTOCK_RETURN_IF_ERROR(
      ReadTokenId(from.With("pad_token_id"), "pad_token_id", d.pad, out->vocab_size, &out->pad_id));
  // A file with images has the ends of its chat outside of text_config.
  const bool outside = IsWritten(from.file, "eos_token_id");
  PENSTOCK_RETURN_IF_ERROR(
      ReadEndIds(outside ? from.file : from.model, d.eos, out->vocab_size, &out->end_ids));
  out->eos_id = out->end_ids.empty() ? -1 : out->end_ids.front();
  return Status::Ok();
}

// ---- What is refused, and which tensors there are

Status RefuseOthers(const Source& from) {
  for (const JsonObject* object : {&from.model, &from.file}) {
    PENSTOCK_RETURN_IF_ERROR(RefuseIfSet(
        *object, {"quantization_config", "compression_config", "is_encoder_decoder",
                  "add_cross_attention", "cross_attention_hidden_size", "pruned_heads",
                  "use_bidirectional_attention", "num_experts", "num_local_experts",
                  "n_routed_experts", "moe_intermediate_size", "attention_chunk_size", "clip_qkv",
                  "use_qk_norm", "qk_layernorm", "attn_temperature_tuning"}));
  }
  PENSTOCK_ASSIGN_OR_RETURN(const auto architectures,
                            from.file.GetStringsOrEmpty("architectures", 64));
  if (architectures.empty() || architectures[0].ends_with("ForCausalLM") ||
      architectures[0].ends_with("ForConditionalGeneration")) {
    return Status::Ok();
  }
  return Status::Unsupported("'architectures': '" + architectures[0] +
                                 "' is not supported; a decoder's ends in ForCausalLM",
                             "architectures");
}

Status ReadWiring(const Source& from, DecoderWiring* out) {
  out->architecture = &from.architecture;
  const auto bias_if = [](bool there) { return there ? Bias::kRequired : Bias::kNone; };
  bool attention = false, ff = false;
  if (!from.Is("mistral") && !from.Is("qwen2") && !from.Is("phi3")) {
    PENSTOCK_ASSIGN_OR_RETURN(attention, from.model.GetBoolOr("attention_bias", false));
  }
  if (from.Is("llama") || from.Is("granite") || from.Is("smollm3")) {
    PENSTOCK_ASSIGN_OR_RETURN(ff, from.model.GetBoolOr("mlp_bias", false));
  }
  out->qkv_bias = bias_if(attention || from.architecture.qkv_bias);
  out->attention_out_bias = bias_if(attention);
  out->ff_bias = bias_if(ff);
  PENSTOCK_ASSIGN_OR_RETURN(
      out->tied,
      from.With("tie_word_embeddings").GetBoolOr("tie_word_embeddings", from.defaults.tied));
  return Status::Ok();
}

}  // namespace

Status ReadEndIds(const JsonObject& config, int32_t absent, int32_t vocabulary,
                  std::vector<int32_t>* ids) {
  const std::string_view key = "eos_token_id";
  const auto value = config.Find(key);
  simdjson::dom::array list;
  if (!value || value->get(list) != simdjson::SUCCESS) {
    int32_t id = -1;
    PENSTOCK_RETURN_IF_ERROR(ReadTokenId(config, key, absent, vocabulary, &id));
    if (id >= 0) ids->push_back(id);
    return Status::Ok();
  }
  if (list.size() > kDecoderEndIdsMax) {
    return Status::InvalidArgument("'" + config.PathOf(key) + "' has more than " +
                                       std::to_string(kDecoderEndIdsMax) + " tokens",
                                   config.PathOf(key));
  }
  for (const simdjson::dom::element item : list) {
    int64_t id = -1;
    if (item.get(id) != simdjson::SUCCESS || id < 0 || id >= vocabulary) {
      return Status::InvalidArgument("'" + config.PathOf(key) + "' must have tokens from 0 to " +
                                         std::to_string(vocabulary - 1),
                                     config.PathOf(key));
    }
    ids->push_back(static_cast<int32_t>(id));
  }
  return Status::Ok();
}

Expected<DecoderReading> ReadDecoderJson(const JsonObject& file) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string model_type, file.GetString("model_type"));
  const DecoderArchitecture* architecture = DecoderOfModelType(model_type);
  if (architecture == nullptr) {
    return Status::Unsupported("'model_type': '" + model_type +
                                   "' is not supported; supported decoders are " +
                                   DecoderModelTypes(),
                               "model_type");
  }
  JsonObject model = file;
  if (model_type == "gemma3") {
    PENSTOCK_ASSIGN_OR_RETURN(model, file.GetObject("text_config"));
  }
  const Source from = {model, file, *architecture, DefaultsOf(architecture->name)};
  DecoderReading out;
  out.config.architecture = architecture->name;
  PENSTOCK_RETURN_IF_ERROR(RefuseOthers(from));
  PENSTOCK_RETURN_IF_ERROR(ReadSizes(from, &out.config));
  PENSTOCK_RETURN_IF_ERROR(ReadLayers(from, &out.config));
  if (from.Is("gemma3")) {
    PENSTOCK_RETURN_IF_ERROR(ReadGemma3Rope(from, &out.config));
  } else {
    PENSTOCK_ASSIGN_OR_RETURN(const JsonObject rope, RopeObject(model));
    PENSTOCK_ASSIGN_OR_RETURN(const double theta,
                              ReadTheta(rope, model, "rope_theta", from.defaults.rope_theta));
    PENSTOCK_RETURN_IF_ERROR(ReadRope(from, rope, theta, &out.config));
  }
  PENSTOCK_RETURN_IF_ERROR(ReadScales(from, &out.config));
  PENSTOCK_RETURN_IF_ERROR(ReadTokens(from, &out.config));
  PENSTOCK_RETURN_IF_ERROR(ReadWiring(from, &out.wiring));
  PENSTOCK_RETURN_IF_ERROR(FinishDecoderConfig(&out.config));
  return out;
}

}  // namespace penstock
