// Unigram language model (SentencePiece): the segmentation with the highest sum of scores, by
// Viterbi. Neighbouring unknown characters become one unknown token, or one <0xNN> a byte.
//
// A walk down a trie finds the tokens that start at a place. If tokens are so long that such walks
// could go over the same bytes again and again, the tokens that end at a place are found instead,
// longest first: the same candidates in the same order, so the same choice.
#pragma once

#include <array>

#include "base/status.h"
#include "text/token_automaton.h"
#include "text/tokenizer_model.h"

namespace penstock::text {

class UnigramModel : public TokenizerModel {
 public:
  // scores[i] belongs to id i. unk_id -1 = none.
  UnigramModel(Vocabulary vocabulary, std::vector<double> scores, int32_t unk_id,
               bool byte_fallback);
  bool Tokenize(std::string_view piece, Work* work, std::vector<ModelToken>* out) const override;
  bool can_fail() const override { return unk_id_ < 0; }
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::string_view type() const override { return "Unigram"; }

 private:
  // The last token of the best way to a byte of the piece.
  struct Best {
    double score;
    int32_t id;
    uint32_t start;  // kUnset: no way leads here yet
  };
  static constexpr uint32_t kUnset = 0xFFFFFFFF;

  // Fills best[1..]; false if a part is unknown and there is no unknown token, or `work` was
  // stopped.
  bool ForwardShort(std::string_view piece, Work* work, Best* best) const;
  bool ForwardLong(std::string_view piece, Work* work, Best* best) const;
  bool OfferUnknown(uint32_t at, uint32_t end, Best* best) const;
  bool EmitUnknown(std::string_view text, uint32_t begin, std::vector<ModelToken>* out) const;

  Vocabulary vocabulary_;
  ByteTrie trie_;
  TokenAutomaton ending_;  // built only where some tokens are long
  std::vector<double> scores_;
  int32_t unk_id_;
  double unk_score_;
  bool byte_fallback_;
  std::array<int32_t, 256> fallback_id_;
};

}  // namespace penstock::text
