// TextModel: what generates text from one model: its weights, its tokenizer, and what its makers
// recommend.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "families/chat_template_files.h"
#include "models/decoder.h"
#include "numbers/dtype.h"
#include "program/backend.h"
#include "sample/generation_defaults.h"
#include "text/tokenizer.h"

namespace penstock::generate {

struct TextModelOptions {
  // As DecoderOptions::dtype.
  std::optional<numbers::DType> dtype;
  // Tokens of prompt and text together; 0: as many as the model is made for, cut to what memory
  // holds, with a warning in the log.
  int32_t context = 0;
  // Of keys and values in the cache: kF32, kF16, kBf16 or kI8.
  numbers::DType cache_type = numbers::DType::kBf16;
  // What weights and the cache of one context may take; 0: a share of what is available.
  uint64_t memory_bytes = 0;
};

struct TextModel {
  // `path`: a folder or a .gguf file. `backend` must outlive the model. Errors: those of
  // DecoderFiles::Open, of the tokenizer and of DecoderModel::Load; kResourceExhausted, field
  // context: memory does not hold the context that was asked for.
  static Expected<std::unique_ptr<TextModel>> Load(const std::string& path,
                                                   program::Backend* backend,
                                                   const TextModelOptions& options);

  int32_t context() const { return decoder->context(); }
  // Bytes of a block of each group of the cache (CacheGroups), about.
  std::vector<uint64_t> cache_block_bytes() const;

  std::unique_ptr<text::Tokenizer> tokenizer;
  std::unique_ptr<models::DecoderModel> decoder;
  sample::GenerationDefaults defaults;
  std::vector<int32_t> end_ids;  // tokens that end the text, ascending
  numbers::DType cache_type = numbers::DType::kBf16;
  uint64_t stored_bytes = 0;  // of the tensors in the files
  families::ChatTemplates chat_templates;
  // What templates know by the names bos_token, eos_token and so on: the texts of these tokens. A
  // folder's tokenizer_config.json says them, as for transformers, else the ids of the model.
  std::vector<std::pair<std::string, std::string>> special_tokens;
};

// The context that memory of `backend` holds beside the weights, of options.context tokens or as
// many as the model is made for. Errors: TextModel::Load's.
Expected<int32_t> ChooseContext(const families::DecoderFiles& files,
                                const TextModelOptions& options, const program::Backend& backend);

// Reads what `path` recommends for sampling: generation_config.json or GGUF's keys.
Expected<sample::GenerationDefaults> ReadGenerationDefaults(const families::DecoderFiles& files);

}  // namespace penstock::generate
