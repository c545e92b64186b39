// WordPiece: longest match first, from left to right (BERT). A word that cannot be covered, or
// that is too long, is one unknown token.
#pragma once

#include <string>

#include "text/model.h"

namespace penstock {

class WordPieceModel : public Model {
 public:
  // `vocabulary` must be built.
  WordPieceModel(Vocabulary vocabulary, std::string_view unk_token, std::string_view prefix,
                 size_t max_chars_per_word);
  bool Tokenize(std::string_view piece, std::vector<ModelToken>* out) const override;
  bool can_fail() const override { return unk_id_ < 0; }
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::string_view type() const override { return "WordPiece"; }

 private:
  Vocabulary vocabulary_;
  ByteTrie trie_;
  uint32_t continuing_;  // trie node of the prefix, or kNone
  int32_t unk_id_;
  size_t max_chars_per_word_;
};

// WordLevel: a piece is one token or unknown.
class WordLevelModel : public Model {
 public:
  WordLevelModel(Vocabulary vocabulary, std::string_view unk_token);
  bool Tokenize(std::string_view piece, std::vector<ModelToken>* out) const override;
  bool can_fail() const override { return unk_id_ < 0; }
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::string_view type() const override { return "WordLevel"; }

 private:
  Vocabulary vocabulary_;
  int32_t unk_id_;
};

}  // namespace penstock
