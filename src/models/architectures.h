// The encoder architectures as data: where each keeps its weights, and how its layers are wired.
// A new one of the family is a row in architectures.cc.
#pragma once

#include <string_view>

#include "families/model_folder.h"

namespace penstock {

// How position rows are numbered.
enum class PositionScheme {
  kNone,      // rotary or relative
  kAbsolute,  // 0, 1, 2, ...
  kPadded,    // from padding index + 1; a padding token keeps the padding row (RoBERTa, MPNet)
};

// The head that turns pooled states into logits: [dense, activation, [norm]], classifier.
struct HeadSpec {
  std::string_view dense;  // "" = none; the weight may be absent only if `dense` is ""
  HiddenActivation activation = HiddenActivation::kIdentity;
  bool config_activation = false;  // classifier_activation of the config instead
  std::string_view norm;           // "" = none
  std::string_view classifier;     // "" = this architecture is not offered with a head
};

// Tensor names without ".weight" / ".bias"; names in a layer are relative to `layer` + number +
// ".".
struct Architecture {
  std::string_view model_type;
  std::string_view prefix;  // names may or may not start with it; head names never do
  std::string_view words;
  std::string_view positions;  // "" = no table
  std::string_view types;      // "" = no token types
  std::string_view embed_norm;
  std::string_view layer;
  std::string_view qkv;  // fused q, k, v; else the three below
  std::string_view query;
  std::string_view key;
  std::string_view value;
  std::string_view attention_out;
  std::string_view attention_norm;
  // Feed-forward. Gated: y = out(act(gate x) * (in x)); `gate` "" with gated: `in` holds both
  // halves, the activated one first.
  std::string_view ff_in;
  std::string_view ff_gate;
  std::string_view ff_out;
  std::string_view ff_norm;
  std::string_view final_norm;     // "" = none
  std::string_view relative_bias;  // [buckets, heads], shared by the layers; "" = none
  PositionScheme position_scheme = PositionScheme::kAbsolute;
  // Row of the padding token for kPadded; negative: pad_token_id of the config.
  int position_padding = -1;
  bool pre_norm = false;
  bool gated = false;
  bool first_norm_absent = false;  // layer 0 has no attention norm (pre_norm)
  HeadSpec head;
};

// Null if Penstock does not know this model_type.
const Architecture* FindArchitecture(std::string_view model_type);
// "bert, distilbert, ..." for messages.
std::string_view ArchitectureNames();

}  // namespace penstock
