// WordPiece: longest match first, from left to right (BERT). A word that cannot be covered, or
// that is too long, is one unknown token.
//
// Each match is a walk down a trie. Where tokens are so long that such walks could go over the same
// bytes again and again, the matches of a long word are found from its end in one pass.
#pragma once

#include <string>

#include "text/token_automaton.h"
#include "text/tokenizer_model.h"

namespace penstock::text {

class WordPieceModel : public TokenizerModel {
 public:
  // `vocabulary` must be built.
  WordPieceModel(Vocabulary vocabulary, std::string_view unk_token, std::string_view prefix,
                 size_t max_chars_per_word);
  bool Tokenize(std::string_view piece, Work* work, std::vector<ModelToken>* out) const override;
  bool can_fail() const override { return unk_id_ < 0; }
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::string_view type() const override { return "WordPiece"; }

 private:
  // Words of more than kLongKey bytes, by walks or by longest_. False if the word cannot be covered
  // or `work` was stopped; the caller then removes the tokens they appended.
  bool WalkLong(std::string_view piece, Work* work, std::vector<ModelToken>* out) const;
  bool CoverLong(std::string_view piece, std::vector<ModelToken>* out) const;

  Vocabulary vocabulary_;
  ByteTrie trie_;
  uint32_t continuing_;  // trie node of the prefix, or kNone
  LongestKeys longest_;  // tokens that continue a word, without the prefix; if some are long
  int32_t unk_id_;
  size_t max_chars_per_word_;
};

// WordLevel: a piece is one token or unknown.
class WordLevelModel : public TokenizerModel {
 public:
  WordLevelModel(Vocabulary vocabulary, std::string_view unk_token);
  bool Tokenize(std::string_view piece, Work* work, std::vector<ModelToken>* out) const override;
  bool can_fail() const override { return unk_id_ < 0; }
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::string_view type() const override { return "WordLevel"; }

 private:
  Vocabulary vocabulary_;
  int32_t unk_id_;
};

}  // namespace penstock::text
