// The parts of a tokenizer, as the loader hands them to the pipeline.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/added_tokens.h"
#include "text/decoders.h"
#include "text/normalizers.h"
#include "text/post_processors.h"
#include "text/pre_tokenizers.h"
#include "text/tokenizer.h"
#include "text/tokenizer_model.h"

namespace penstock::text {

struct TokenizerParts {
  std::unique_ptr<Normalizer> normalizer;  // may be null
  std::vector<std::unique_ptr<PreTokenizer>> pre_tokenizers;
  std::unique_ptr<TokenizerModel> model;
  std::vector<AddedToken> added;  // ids are final, patterns are not set yet
  PostProcessor post;
  DecoderChain decoder;
};

// tokenizer_loader.cc: parses a tokenizer.json of at most 256 MiB.
Expected<TokenizerParts> LoadTokenizerParts(std::string_view json);

// pipeline.cc.
Expected<std::unique_ptr<Tokenizer>> MakeTokenizer(TokenizerParts parts);

}  // namespace penstock::text
