// DecoderFamily: everything that one family of decoders does in its own way, as families/NAME.cc
// says it. What all families share is in the readers (decoder_json.h, decoder_gguf.h,
// decoder_tensors.cc), which ask the family and never compare its name.
//
// To add a family: a file with its DecoderFamily, a row in list.cc, a golden model. Most families
// set names and defaults only; a function is for what no field says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/status.h"
#include "families/decoder_config.h"

namespace penstock::families {

struct JsonSource;  // families/decoder_json.h
struct GgufSource;  // families/decoder_gguf.h

// What transformers takes where config.json has no such field.
struct DecoderDefaults {
  int32_t vocab_size = 0, hidden_size = 0, intermediate_size = 0, layers = 0, heads = 0;
  int32_t kv_heads = 0;   // 0: as many as heads
  int32_t head_size = 0;  // 0: hidden_size / heads
  int32_t context = 0;
  int32_t original_context = 0;  // original_max_position_embeddings; 0: none
  double rms_epsilon = 1e-6;
  double rope_theta = 1e4;
  // Layers with a window rotate by this theta, and rope_scaling is not for them; 0: all layers
  // rotate alike.
  double local_rope_theta = 0;
  bool tied = false;                     // the output is the embedding
  int32_t bos = -1, eos = -1, pad = -1;  // -1: none
  int32_t window = 0;                    // sliding_window; 0: none
  // DecoderConfig::attention_soft_cap and logit_soft_cap, in GGUF files too. A family without the
  // first has no cap of scores.
  double attention_soft_cap = 0, logit_soft_cap = 0;
  std::string_view activation = "silu";
};

// Tensors of a layer in safetensors, without ".weight" and ".bias". A family has what it names.
struct DecoderLayerNames {
  std::string_view attention_norm = "input_layernorm";
  std::string_view q = "self_attn.q_proj";
  std::string_view k = "self_attn.k_proj";
  std::string_view v = "self_attn.v_proj";
  std::string_view qkv;  // q, k and v in one
  std::string_view attention_out = "self_attn.o_proj";
  std::string_view q_norm, k_norm;
  std::string_view post_attention_norm;
  std::string_view ff_norm = "post_attention_layernorm";
  std::string_view gate = "mlp.gate_proj";
  std::string_view up = "mlp.up_proj";
  std::string_view gate_up;  // gate and up in one
  std::string_view down = "mlp.down_proj";
  std::string_view post_ff_norm;
};

// The settings of config.json by which families tell the layers that have a window.
struct WindowSettings {
  int32_t window = 0;      // sliding_window; 0: none
  size_t full_first = 28;  // max_window_layers: that many layers at the beginning have none
  size_t period = 6;       // sliding_window_pattern: every how many layers one has none
};

// What GGUF files of the family have otherwise than others.
struct DecoderGguf {
  std::string_view name;  // general.architecture; "": the files say that of another family
  // Rotated pairs lie side by side: q and k have other rows than in the original files
  // (llama.cpp's conversion; its rope type "norm").
  bool interleaved = false;
  std::span<const std::string_view> keys = {};  // besides those that any file may have
  int32_t window = 0;                           // where attention.sliding_window is absent
  // attention.sliding_window_pattern where that is absent: every how many layers one has no window.
  // 0: the files do not say which layers have the window.
  int32_t period = 0;
  bool window_in_all_layers = false;
  // Called when all else is read.
  Status (*read)(const GgufSource& from, DecoderConfig* out) = nullptr;
};

struct DecoderFamily {
  std::string_view name;        // DecoderConfig::architecture
  std::string_view model_type;  // of config.json
  // model_type of files with images, whose text model is in text_config; "": there are none.
  std::string_view type_with_images = {};
  DecoderDefaults defaults;
  DecoderLayerNames tensors = {};

  bool qkv_bias = false;           // q, k and v have biases, whatever the settings say
  bool attention_bias = false;     // the setting of this name says whether attention has biases
  bool mlp_bias = false;           // the same of feed-forward
  bool unit_offset_norms = false;  // in safetensors: DecoderConfig::unit_offset_norms
  bool scaled_embedding = false;   // by the root of hidden_size
  std::string_view activation_key = "hidden_act";
  bool yarn_is_longrope = false;  // of rope_scaling's types

  // Whether a layer has the window; null: none has one. `layer` knows whether it is rotated.
  bool (*has_window)(const WindowSettings& settings, const DecoderLayerConfig& layer,
                     size_t index) = nullptr;
  bool layer_types = false;         // the setting of this name goes before has_window
  bool use_sliding_window = false;  // windows are there only if the setting of this name is true
  // With attention in both directions a window reaches half as far in each; false: not supported.
  bool halves_window = false;
  // Models that rerank, yet only "reranker" in their name tells them from those that write.
  bool reranks_by_name = false;

  // Settings of config.json that no field above says. Called after the sizes and scales, before
  // the layers.
  Status (*read_json)(const JsonSource& from, DecoderConfig* out) = nullptr;
  // Instead of the reader of rotary embeddings that is for all.
  Status (*read_json_rope)(const JsonSource& from, DecoderConfig* out) = nullptr;
  // Whether tokens see those after them where the settings do not say it.
  Expected<bool> (*attends_both_ways)(const JsonSource& from) = nullptr;

  DecoderGguf gguf = {};
};

}  // namespace penstock::families
