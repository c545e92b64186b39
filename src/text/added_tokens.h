// Added tokens: strings that are cut out of a text whole, before the model sees it.
//
// Those with normalized = false are looked for in the raw text, the others in the normalised
// text (and then by their normalised form). Leftmost, then longest.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "text/normalized_text.h"
#include "text/token_automaton.h"
#include "text/vocabulary.h"

namespace penstock::text {

struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool single_word = false;  // not within a word
  bool lstrip = false;       // takes whitespace on its left
  bool rstrip = false;       // takes whitespace on its right
  bool normalized = true;
  bool special = false;
  std::string pattern;  // string searched for: content, or its normalised form
};

class AddedTokenMatcher {
 public:
  // `tokens` must outlive the matcher. Fails on two equal or on empty patterns.
  Status Build(const std::vector<AddedToken>& tokens, bool normalized);
  bool empty() const { return trie_.empty(); }

  // Cuts text[begin, end): appends pieces that cover it; token = index into `tokens`, or -1. Pieces
  // may overlap where rstrip reached over a following match; none is empty. kUnprocessable if
  // overlaps make them longer than GrowthLimit of the text.
  Status Cut(std::string_view text, uint32_t begin, uint32_t end, std::vector<Piece>* out) const;

 private:
  const std::vector<AddedToken>* tokens_ = nullptr;
  ByteTrie trie_;
  LongestKeys longest_;    // if some patterns are long
  bool starts_[256] = {};  // first bytes of patterns
  int only_start_ = -1;    // the byte, if all begin alike
};

}  // namespace penstock::text
