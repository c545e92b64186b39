// Tokenizers from the metadata of a GGUF file (keys tokenizer.ggml.*): byte-level BPE ("gpt2"),
// SentencePiece's BPE by scores ("llama"), WordPiece ("bert") and Unigram ("t5"). They give the ids
// that the tokenizer.json of the same model gives.
#pragma once

#include <memory>

#include "base/status.h"
#include "files/gguf_metadata.h"
#include "text/tokenizer.h"

namespace penstock::text {

// Copies what it needs out of `metadata`. kUnsupported: a tokenizer or pre-tokenizer of another
// name, or more than tokenizer_loader.h allows; kInvalidArgument: contents that make no tokenizer.
// Errors name the key.
Expected<std::unique_ptr<Tokenizer>> TokenizerFromGguf(const files::GgufMetadata& metadata);

}  // namespace penstock::text
