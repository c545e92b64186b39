// CutPoints: where a text may be cut in two so that its tokens are those of the left part, then
// those of the right part. So a long text is read only as far as its limit needs (limited_text.h),
// and a prompt is tokenized once for all texts after it.
//
// A cut lies before a single space between two words: "the|_cat", and for BERT's tokenizers between
// two Han characters. Why nothing depends on both sides:
//   - bytes: a space and the characters beside it are whole, whatever is ill-formed elsewhere;
//   - added tokens: with one that could begin at the word after the cut, reach over the space, or
//     take whitespace on its right, the tokenizer has no cuts;
//   - normalizer: each step declares that it treats both sides separately (CutRule), and its result
//     for each character beside a cut was tried out when the tokenizer was built;
//   - pre-tokenizers: one of them declares that no piece reaches across; the model then works piece
//     by piece. A tokenizer without such a step (a BPE over whole texts) has no cuts;
//   - the model cannot fail, so an unread part cannot hide a failure.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/added_tokens.h"
#include "text/normalizers.h"
#include "text/pre_tokenizers.h"

namespace penstock::text {

struct TokenizerParts;

class CutPoints {
 public:
  // Normalises some thousand short texts; finds no cuts if that takes longer than with a normalizer
  // of some ten steps (kMaxProbeWork). `parts`: with the patterns of added tokens set.
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

}  // namespace penstock::text
