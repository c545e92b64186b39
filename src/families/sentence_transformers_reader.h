// The sentence-transformers part of a model folder: modules.json and the folders it names,
// sentence_bert_config.json, config_sentence_transformers.json. Part of ModelFolder::Read.
//
// Names: sentence-transformers 2 to 6. Older files call the classes sentence_transformers.models.X
// and give pooling as booleans; newer ones name the full module path and one pooling_mode.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "families/model_folder.h"

namespace penstock::families {

struct SentenceTransformersSettings {
  std::optional<int32_t> tokens_max;  // max_seq_length, or processing_kwargs.text.max_length
  bool cross_encoder = false;         // the folder says it is a CrossEncoder
};

// Fills the embedding head, the prompts and the similarity of `out`, whose path and encoder are
// set. Files that are not there leave the defaults; pooling_declared says whether pooling was.
Expected<SentenceTransformersSettings> ReadSentenceTransformers(ModelFolder* out);

// Only what concerns texts: prompts, do_lower_case and the longest input. modules.json and the
// folders it names are not opened, and the encoder need not be set.
Expected<SentenceTransformersSettings> ReadTextSettings(ModelFolder* out);

}  // namespace penstock::families
