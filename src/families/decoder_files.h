// The files of a decoder, opened: its configuration, and its tensors by what they are for. A model
// is a Hugging Face folder (config.json, generation_config.json, safetensors), a .gguf file, which
// may be one of several, or a folder with one GGUF model in it. Nothing above families/ needs to
// know which it was.
//
// Weights are views into the mapped files. Matrices that a file stores as one (phi3's q, k and v)
// are views of its rows. Every shape was checked against the configuration.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "families/chat_template_files.h"
#include "families/decoder_config.h"
#include "families/special_token_texts.h"
#include "files/gguf_metadata.h"
#include "files/tensor_record.h"
#include "files/tensor_store.h"

namespace penstock::families {

// y = weight x + bias; weight is [out, in].
struct DecoderLinear {
  files::TensorRecord weight;
  std::optional<files::TensorRecord> bias;  // [out]
};

struct DecoderLayerTensors {
  files::TensorRecord attention_norm;  // [hidden]
  DecoderLinear q, k, v;               // [(kv_)heads * head_size, hidden]
  std::optional<files::TensorRecord> q_norm,
      k_norm;                   // [head_size], on each head, before it is rotated
  DecoderLinear attention_out;  // [hidden, heads * head_size]
  std::optional<files::TensorRecord> post_attention_norm;
  files::TensorRecord ff_norm;
  DecoderLinear gate, up;  // [intermediate, hidden]
  DecoderLinear down;      // [hidden, intermediate]
  std::optional<files::TensorRecord> post_ff_norm;
};

// All of types that TensorRecord::CopyToF32 reads. A part of a fused tensor is named
// "model.layers.0.self_attn.qkv_proj.weight[0:64]", by its rows.
struct DecoderTensors {
  files::TensorRecord embedding;  // [vocabulary, hidden]
  files::TensorRecord output_norm;
  DecoderLinear output;  // [vocabulary, hidden]; the embedding if an embedding model has no other
  bool tied = false;     // output.weight is the embedding, the same bytes
  std::vector<DecoderLayerTensors> layers;
};

// Where the tokenizer of a model is.
struct TokenizerSource {
  std::string path;  // tokenizer.json, or the GGUF file
  // Has the keys tokenizer.ggml.*; nullptr: `path` is a tokenizer.json. Lives as long as the store.
  const files::GgufMetadata* gguf = nullptr;
};

// What the files recommend for sampling as numbers; absent where they do not say. A folder has
// generation_config.json instead (sample/generation_defaults.h).
struct SamplingKeys {
  std::optional<int32_t> top_k;
  std::optional<float> temperature, top_p, min_p, repetition_penalty;
};

struct StoredType {
  numbers::DType dtype = numbers::DType::kF32;
  int64_t tensors = 0, elements = 0, bytes = 0;
};

// kGenerate: text; the model attends to what is before a token, and has an output over the
// vocabulary. kEmbed: vectors and scores; either may be otherwise (families/decoder_folder.h).
enum class DecoderUse { kGenerate, kEmbed };

struct DecoderFiles {
  // `path` is a folder or a .gguf file. Errors name the file and the field or the tensor:
  // kNotFound: no model there; kUnsupported: something that Penstock does not implement;
  // kInvalidArgument: malformed.
  static Expected<DecoderFiles> Open(const std::string& path,
                                     DecoderUse use = DecoderUse::kGenerate);

  std::string path;  // as it was given
  DecoderUse use = DecoderUse::kGenerate;
  DecoderConfig config;
  std::unique_ptr<files::TensorStore> store;  // what `tensors` are views into
  DecoderTensors tensors;
  int64_t parameters = 0;      // elements of all tensors that are of use
  int64_t unused_tensors = 0;  // those in the files that are of none

  // Empty if the files have no tokenizer, or only the files of a slow one.
  std::optional<TokenizerSource> tokenizer;
  std::string generation_config_path;  // empty if there is no such file
  SamplingKeys sampling;
  SpecialTokenTexts special_tokens;  // of a folder
  ChatTemplates chat_templates;
  std::string chat_template;  // the template named "default"; "": the model has no such template
};

// Of all tensors in the files, those with most bytes first.
std::vector<StoredType> TypesInFiles(const files::TensorStore& store);

}  // namespace penstock::families
