// Byte pair encoding: merges neighbours in the order the merges were learnt.
//
// Two ways to read a piece. By characters: each character is looked up in the vocabulary (with
// byte fallback or an unknown token where it is missing). By bytes, for byte-level tokenizers:
// each byte is a symbol, which saves turning the text into the byte-level alphabet first.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "text/tokenizer_model.h"

namespace penstock::text {

struct BpeOptions {
  std::string unk_token;  // "" = none; unknown characters then vanish
  bool has_unk_token = false;
  std::string continuing_prefix;
  std::string end_suffix;
  bool fuse_unk = false;
  bool byte_fallback = false;
  bool ignore_merges = false;  // a piece that is a token as a whole is that token
  bool bytes = false;          // read pieces by bytes
};

// Two neighbours that become one token. The lowest rank goes first, of equal ones the leftmost.
struct BpeMerge {
  int32_t left, right;
  int32_t id;  // the token of both together
  uint32_t rank;
};

class BpeModel : public TokenizerModel {
 public:
  // Ids must be in the vocabulary. If a pair occurs twice the last merge counts.
  static std::unique_ptr<BpeModel> FromMerges(Vocabulary vocabulary,
                                              std::span<const BpeMerge> merges, BpeOptions options);
  // Fails if a merge names a token that is not in the vocabulary.
  static Expected<std::unique_ptr<BpeModel>> Create(
      Vocabulary vocabulary, const std::vector<std::pair<std::string, std::string>>& merges,
      BpeOptions options);
  bool Tokenize(std::string_view piece, Work* work, std::vector<ModelToken>* out) const override;
  bool can_fail() const override { return options_.has_unk_token && unk_id_ < 0; }
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::string_view type() const override { return "BPE"; }

 private:
  struct Symbol {
    int32_t id;
    uint32_t length;  // bytes of the piece
    int32_t prev, next;
  };
  struct Merge {
    uint32_t rank = 0;
    int32_t id = -1;
  };

  BpeModel() = default;
  const Merge* FindMerge(int32_t left, int32_t right) const;
  bool Symbols(std::string_view piece, std::vector<Symbol>* out) const;
  void MergeShort(std::vector<Symbol>* symbols) const;
  // False if `work` was stopped.
  bool MergeLong(Work* work, std::vector<Symbol>* symbols) const;
  void BuildByteTables();

  Vocabulary vocabulary_;
  BpeOptions options_;
  int32_t unk_id_ = -1;
  uint64_t seed_ = HashSeed();
  // Open-addressed: key = left << 32 | right; kFree where empty.
  static constexpr uint64_t kFree = ~uint64_t(0);
  struct Slot {
    uint64_t key = kFree;
    Merge merge;
  };
  std::vector<Slot> merges_;
  uint64_t merge_mask_ = 0;
  std::array<int32_t, 256> byte_id_;      // id of each byte, when reading bytes
  std::array<int32_t, 256> fallback_id_;  // id of <0xNN>, or -1
  Vocabulary raw_;                        // tokens as bytes, for ignore_merges when reading bytes
};

}  // namespace penstock::text
