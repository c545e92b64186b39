// EncoderFamily: everything that one family of encoders does in its own way, as families/NAME.cc
// says it: how its config.json is read, where it keeps its weights, how its layers are wired, and
// what its GGUF files have. Readers and models/ ask the family and never compare its name.
//
// To add a family: a file with its EncoderFamily, a row in list.cc, a golden model.
#pragma once

#include <string_view>

#include "base/status.h"
#include "families/model_folder.h"
#include "json/json.h"

namespace penstock::families {

class ArchitectureKeys;  // families/architecture_keys.h

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
struct EncoderArchitecture {
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
  bool ff_width_in_file = false;   // ff_out's columns tell it: the setting may have been rounded
  bool first_norm_absent = false;  // layer 0 has no attention norm (pre_norm)
  HeadSpec head;
};

// GGUF files of the family; their tensors have names that are for all (gguf_encoder.cc).
struct EncoderGguf {
  std::string_view name;        // general.architecture; "": there are no such files
  std::string_view class_name;  // what config.json would have: "BertModel"
  // Settings besides those that all have, called after them; null: none.
  Status (*read)(const ArchitectureKeys& keys, EncoderConfig* out) = nullptr;
};

struct EncoderFamily {
  std::string_view model_type;  // of config.json
  // Its settings. kUnsupported names one that is not implemented; kInvalidArgument a malformed one.
  Status (*read_json)(const JsonObject& config, EncoderConfig* out) = nullptr;
  EncoderArchitecture architecture = {};
  EncoderGguf gguf = {};
};

}  // namespace penstock::families
