// The text of single tokens, as log-probabilities show them and grammars follow them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "text/tokenizer.h"

namespace penstock::text {

// Not thread-safe; the tokenizer must outlive it.
class TokenTexts {
 public:
  explicit TokenTexts(const Tokenizer* tokenizer);

  // The bytes of a token in the midst of a text: with the space it begins with, special tokens
  // too, and parts of a character as they are.
  std::string Bytes(int32_t id) const;
  bool IsSpecial(int32_t id) const { return tokenizer_->IsSpecial(id); }

 private:
  const Tokenizer* const tokenizer_;
  std::optional<int32_t> before_;  // a token that stands before
};

}  // namespace penstock::text
