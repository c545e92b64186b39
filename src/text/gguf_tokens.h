// What the metadata of a GGUF file says about its tokens (keys tokenizer.ggml.*), checked: the
// limits of tokenizer_loader.h hold, texts are UTF-8 and there once, ids name a token. Errors name
// the key.
// Format: github.com/ggml-org/ggml, docs/gguf.md; defaults as in llama.cpp (src/llama-vocab.cpp).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "files/gguf_metadata.h"
#include "text/added_tokens.h"
#include "text/vocabulary.h"

namespace penstock::text {

// Bytes of a token that an error shows.
inline constexpr size_t kTokenBytesShown = 100;
inline constexpr std::string_view kGgufTokensKey = "tokenizer.ggml.tokens";

// With the numbers that they have in files.
enum class GgufTokenType : uint8_t {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

struct GgufTokens {
  // A token without text is never found in a text, and decodes to nothing; more are refused.
  static constexpr size_t kEmptyMax = 1 << 16;

  static Expected<GgufTokens> Read(const files::GgufMetadata& metadata);
  size_t size() const { return texts.size(); }

  std::vector<std::string> texts;    // by id, as the file has them
  std::vector<GgufTokenType> types;  // kNormal where the file says nothing
  std::vector<double> scores;        // finite; 0 where the file has none
  bool has_types = false;
};

// Ids of special tokens, -1 = none.
struct GgufSpecialIds {
  int32_t bos = -1, eos = -1, unk = -1, sep = -1, pad = -1, cls = -1, mask = -1;
};

// `absent`: those of a file without the keys; those above the last id count as none. In the file,
// too, -1 (or 2^32 - 1) stands for none.
Expected<GgufSpecialIds> ReadGgufSpecialIds(const files::GgufMetadata& metadata, size_t tokens,
                                            const GgufSpecialIds& absent);

// The vocabulary of these texts, without empty ones. kInvalidArgument: two are equal.
Expected<Vocabulary> MakeGgufVocabulary(const std::vector<std::string>& texts);

// Control tokens and the unknown one are special; user-defined ones are not. In a file without
// types, the tokens that its keys name are special. All are looked for in the raw text.
Expected<std::vector<AddedToken>> MakeGgufAddedTokens(const files::GgufMetadata& metadata,
                                                      const GgufTokens& tokens);

}  // namespace penstock::text
