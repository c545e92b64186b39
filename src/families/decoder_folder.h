// Decoders that embed, rerank or classify: which model is one, and its settings as a ModelFolder.
//
//   folder   a decoder's model_type with a modules.json of sentence-transformers (Pooling: embeds;
//            LogitScore: reranks), or ...ForSequenceClassification; or Qwen3-Reranker as its makers
//            publish it, which only its name tells from a model that generates: a part of the path
//            has "reranker"
//   GGUF     pooling_type is set; llama.cpp's 4 means that the model reranks
//
// Qwen3-Reranker's prompt, and its score, logit("yes") - logit("no"): github.com/QwenLM/
// Qwen3-Embedding. LogitScore and the roles "query" and "document": sentence-transformers 5.4.
#pragma once

#include <string>

#include "base/status.h"
#include "families/model_folder.h"
#include "files/gguf_metadata.h"
#include "json/json.h"

namespace penstock::families {

// config.json of the folder at `path`. False also where it names no decoder at all.
bool DecoderEmbeds(const std::string& path, const JsonObject& config);
bool DecoderEmbeds(const std::string& path, const files::GgufMetadata& metadata);

// Sets what config.json says; `folder` has its path.
Status ReadDecoderFolder(const JsonObject& config, ModelFolder* folder);
// What is left once the files of sentence-transformers are read: scores, templates, the end token.
Status FinishDecoderFolder(ModelFolder* folder);

// The whole of a GGUF file.
Expected<ModelFolder> ReadDecoderGgufFolder(const std::string& path);

}  // namespace penstock::families
