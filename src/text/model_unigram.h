// Unigram language model (SentencePiece): the segmentation with the highest sum of scores, by
// Viterbi. Neighbouring unknown characters become one unknown token, or one <0xNN> a byte.
#pragma once

#include <array>

#include "common/status.h"
#include "text/model.h"

namespace penstock {

class UnigramModel : public Model {
 public:
  // scores[i] belongs to id i. unk_id -1 = none.
  UnigramModel(Vocabulary vocabulary, std::vector<double> scores, int32_t unk_id,
               bool byte_fallback);
  bool Tokenize(std::string_view piece, std::vector<ModelToken>* out) const override;
  bool can_fail() const override { return unk_id_ < 0; }
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::string_view type() const override { return "Unigram"; }

 private:
  bool EmitUnknown(std::string_view text, uint32_t begin, std::vector<ModelToken>* out) const;

  Vocabulary vocabulary_;
  ByteTrie trie_;
  std::vector<double> scores_;
  int32_t unk_id_;
  double unk_score_;
  bool byte_fallback_;
  std::array<int32_t, 256> fallback_id_;
};

}  // namespace penstock
