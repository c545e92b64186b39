// Where a text may be cut in two so that its tokens are those of the left part, then those of the
// right part: what lets a long text be read only as far as its limit needs (limited_text.h), and a
// prompt be tokenized once for all the texts it stands before.
//
// A cut lies before a single space between two words: "the|_cat", and for BERT's tokenizers between
// two Han characters. Why nothing reaches across:
//   - bytes: a space and the characters beside it are whole, whatever is ill-formed elsewhere;
//   - added tokens: none that could begin at the word after the cut, reach over the space, or take
//     whitespace on their right is allowed, or the tokenizer has no cuts;
//   - normalizer: each step says itself that it treats both sides by themselves (CutRule), and
//     what it makes of each character beside a cut was tried out when the tokenizer was built;
//   - pre-tokenizers: one of them says that no piece reaches across; the model then works piece by
//     piece. A tokenizer without such a step (a BPE over whole texts) has no cuts;
//   - the model can always answer, so that a part unread cannot hide a failure.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "text/added_tokens.h"
#include "text/normalizers.h"
#include "text/pre_tokenizers.h"

namespace penstock {

struct TokenizerParts;

class CutPoints {
 public:
  // `parts` with the patterns of added tokens set. Some thousand short texts are normalised. No
  // cuts where that takes more than a normalizer of some ten steps would (kMaxProbeWork).
  void Build(const TokenizerParts& parts);

  // The last cut in text[low, high], or npos. `both`: the right part's tokens count too, not only
  // the left part's. Looks at the bytes of that range and one character on either side.
  size_t Before(std::string_view text, size_t low, size_t high, bool both) const;

 private:
  bool IsSolid(char32_t c) const { return c < solid_.size() && solid_[c]; }
  bool SpaceCut(std::string_view text, size_t at) const;

  CutRule rule_ = CutRule::kUnsafe;
  bool han_ = false;         // between two Han characters too
  std::vector<bool> solid_;  // by code point: may stand beside a cut
};

}  // namespace penstock
