// TokenizerModel: one pre-tokenized piece in, tokens out.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "text/vocabulary.h"
#include "threads/work.h"

namespace penstock::text {

// A token of a piece; begin and end are bytes of that piece.
struct ModelToken {
  int32_t id;
  uint32_t begin, end;
};

// Immutable; Tokenize may run in any number of threads.
class TokenizerModel {
 public:
  virtual ~TokenizerModel() = default;
  // Appends the tokens of `piece`, which is not empty and whose bytes are counted in `work`
  // already. False if a part is unknown and the model has no unknown token, or if `work` was
  // stopped.
  virtual bool Tokenize(std::string_view piece, Work* work, std::vector<ModelToken>* out) const = 0;
  // Whether Tokenize can fail on an unknown part.
  virtual bool can_fail() const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
  virtual std::string_view type() const = 0;
};

}  // namespace penstock::text
