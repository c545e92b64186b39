// What a decoder, a model that generates text, is: plain values, the same whether they were read
// from a Hugging Face folder or from GGUF files. families/decoder_files.h reads them.
//
// The readers checked every value: sizes lie within the limits below, products of two sizes fit 64
// bits with ease, and what Penstock does not implement was refused by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "families/hidden_activation.h"

namespace penstock::families {

// Limits: above any known decoder.
inline constexpr int64_t kDecoderVocabularyMax = 1 << 24;
inline constexpr int64_t kDecoderHiddenMax = 1 << 16;
inline constexpr int64_t kDecoderLayersMax = 1024;
inline constexpr int64_t kDecoderHeadsMax = 1024;
inline constexpr int64_t kDecoderHeadSizeMax = 4096;
inline constexpr int64_t kDecoderIntermediateMax = 1 << 20;
inline constexpr int64_t kDecoderContextMax = 1 << 27;
inline constexpr size_t kDecoderEndIdsMax = 64;

enum class RopeScalingKind {
  kNone,
  kLinear,    // every frequency divided by `factor`
  kYarn,      // arxiv.org/abs/2309.00071, with factor, beta_fast, beta_slow, original_context
  kLlama3,    // frequency i divided by factors[i]
  kLongrope,  // frequency i divided by short_factors[i] or long_factors[i]
};
const char* RopeScalingName(RopeScalingKind kind);  // "none", "linear", "yarn", ...

// How the frequencies theta^(-2i/rope_size), i < rope_size / 2, are changed for contexts longer
// than those of the training. Fields that a kind does not name are of no meaning for it.
struct RopeScaling {
  RopeScalingKind kind = RopeScalingKind::kNone;
  float factor = 1;              // kLinear, kYarn; kLlama3 where the file gives it, else 0
  int32_t original_context = 0;  // kYarn, kLongrope; kLlama3 where the file gives it, else 0
  // What cosine and sine are multiplied by. Final: it has what follows from the factor, and from
  // YaRN's mscale and mscale_all_dim.
  float attention_factor = 1;
  // kYarn: rotations over original_context beyond which a frequency is kept, and below which it is
  // divided by `factor`.
  float beta_fast = 32, beta_slow = 1;
  bool truncate = true;  // kYarn: the borders of the two are rounded to whole pairs, outwards
  // Of rope_size / 2 each.
  std::vector<float> factors;        // kLlama3
  std::vector<float> short_factors;  // kLongrope: sequences of at most original_context tokens
  std::vector<float> long_factors;   // kLongrope: longer ones
};

struct DecoderLayerConfig {
  // Keys are seen where position - key < window; 0: all before, as in layers whose window is no
  // shorter than the context.
  int32_t window = 0;
  bool rope = true;         // false: queries and keys are not rotated
  float rope_theta = 0;     // base of the frequencies
  bool rope_scaled = true;  // false: DecoderConfig::rope_scaling is not for this layer
};

// x = embedding[token] * embedding_scale; in each layer
//   a = Attend(Norm(x)),  x += residual_scale * [Norm] (Wo a)
//   f = Wdown (act(Wgate Norm(x)) * Wup Norm(x)),  x += residual_scale * [Norm] f
// logits = Softcap(logit_scale * (Woutput Norm(x))). All norms are RMS norms; those in brackets are
// there where the tensors are (DecoderLayerTensors::post_attention_norm, post_ff_norm).
struct DecoderConfig {
  // DecoderFamily::name. For messages: nothing above families/ depends on it.
  std::string architecture;

  int32_t vocab_size = 0;  // rows of the embedding
  int32_t hidden_size = 0;
  int32_t heads = 0;
  int32_t kv_heads = 0;   // heads is a multiple of it
  int32_t head_size = 0;  // of q, k and v; heads * head_size need not be hidden_size
  int32_t intermediate_size = 0;
  int32_t context = 0;  // tokens: the longest sequence that the model is made for
  HiddenActivation activation = HiddenActivation::kSilu;
  float rms_epsilon = 0;
  bool unit_offset_norms = false;  // norms multiply by weight + 1, those of q and k included

  int32_t rope_size = 0;  // even; the first values of a head that are rotated
  // The rows of q and k in a head are so ordered that value 2i is rotated with 2i + 1; false: value
  // i with i + rope_size / 2.
  bool rope_interleaved = false;
  RopeScaling rope_scaling;

  float embedding_scale = 1;
  float attention_scale = 0;  // of q . k
  // false: tokens see those after them as well, of embedding models. Then a layer's window reaches
  // as far in both directions.
  bool causal = true;
  float residual_scale = 1;
  float logit_scale = 1;
  float attention_soft_cap = 0;  // c: c * tanh(x / c) of the scaled q . k; 0: none
  float logit_soft_cap = 0;      // the same of the logits

  std::vector<DecoderLayerConfig> layers;

  // Tokens; -1: none is named. All below vocab_size.
  int32_t bos_id = -1, eos_id = -1, pad_id = -1;
  // Those that end a text. Ascending, each once. Of a folder: the eos_token_id of
  // generation_config.json, else that of config.json. Of GGUF: its eos, eot and eom keys, and the
  // tokens that llama.cpp knows by their text, such as <|im_end|>.
  std::vector<int32_t> end_ids;
  // Whether bos_id goes before a text: GGUF's tokenizer.ggml.add_bos_token. Nothing: the tokenizer
  // decides, as tokenizer.json does.
  std::optional<bool> add_bos;
};

// Bytes that keys and values of one token take over all layers at `value_bytes` each, windows left
// aside.
int64_t KvBytesPerToken(const DecoderConfig& config, int64_t value_bytes);

}  // namespace penstock::families
