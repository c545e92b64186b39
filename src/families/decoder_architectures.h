// The decoders that Penstock knows: what they are called in both formats, and which tensors their
// layers have.
//
// Names: the configuration classes of huggingface/transformers; gguf-py's constants.
#pragma once

#include <string>
#include <string_view>

namespace penstock {

struct DecoderArchitecture {
  std::string_view name;        // DecoderConfig::architecture
  std::string_view model_type;  // of config.json
  std::string_view gguf;        // general.architecture; "": its GGUF files say "llama"
  // Of GGUF files: rotated pairs lie side by side, for their q and k have other rows than the
  // original files (llama.cpp's conversion; its rope type "norm").
  bool interleaved_in_gguf = false;
  bool qkv_bias = false;    // always; others say so in attention_bias
  bool qk_norm = false;     // q_norm and k_norm
  bool fused = false;       // q, k, v in one tensor, gate and up in another
  bool post_norms = false;  // norms behind attention and feed-forward; with them Gemma's ways: the
                            // offset of norms in safetensors, the scaled embedding, GELU
};

// nullptr: Penstock does not know it. Files of Gemma 3 with images have the model_type "gemma3",
// which is taken as "gemma3_text".
const DecoderArchitecture* DecoderOfModelType(std::string_view model_type);
const DecoderArchitecture* DecoderOfGguf(std::string_view architecture);

// "llama, mistral, ...", for messages.
std::string DecoderModelTypes();
std::string DecoderGgufNames();

}  // namespace penstock
