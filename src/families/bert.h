// BERT's tensors, from which those of RoBERTa and MPNet differ in a few names.
#pragma once

#include "families/encoder_family.h"

namespace penstock::families {

// Names as transformers writes them (modeling_bert.py and its kin).
constexpr EncoderArchitecture BertArchitecture(std::string_view prefix) {
  return {.prefix = prefix,
          .words = "embeddings.word_embeddings",
          .positions = "embeddings.position_embeddings",
          .types = "embeddings.token_type_embeddings",
          .embed_norm = "embeddings.LayerNorm",
          .layer = "encoder.layer.",
          .query = "attention.self.query",
          .key = "attention.self.key",
          .value = "attention.self.value",
          .attention_out = "attention.output.dense",
          .attention_norm = "attention.output.LayerNorm",
          .ff_in = "intermediate.dense",
          .ff_out = "output.dense",
          .ff_norm = "output.LayerNorm",
          .head = {.dense = "pooler.dense",
                   .activation = HiddenActivation::kTanh,
                   .classifier = "classifier"}};
}

}  // namespace penstock::families
