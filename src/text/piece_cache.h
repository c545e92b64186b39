// PieceCache: the tokens of short pieces that a thread met lately, for all tokenizers.
//
// A model's tokens of a piece depend on the piece alone, and words of a language come again: a look
// here takes the place of walks down tries, merges or Viterbi. A table of fixed size, two entries for
// each value of the hash and one of its neighbour's, so pieces that collide beyond these cost what they
// would cost without it.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "text/tokenizer_model.h"

namespace penstock::text {

class PieceCache {
 public:
  static constexpr size_t kPieceBytes = 15;  // the longest piece that is kept
  static constexpr size_t kIds = 3;          // the most tokens of one
  static constexpr int kSetBits = 14;        // 2^14 sets of 64 bytes: 1 MiB a thread

  // A piece as the table has it: its bytes, zeros, and its length in the last byte.
  struct Key {
    uint64_t words[2];
  };
  // The piece text[begin, begin + length), 1 <= length <= kPieceBytes. Without branches on the
  // length, which no processor foresees, but near the end of the text.
  static Key KeyOf(std::string_view text, size_t begin, size_t length) {
    static_assert(std::endian::native == std::endian::little);
    Key key = {};
    if (text.size() - begin >= sizeof key) [[likely]] {
      std::memcpy(&key, text.data() + begin, sizeof key);
      const Key& mask = kMasks[length];
      for (size_t i = 0; i < 2; ++i) key.words[i] &= mask.words[i];
    } else {
      std::memcpy(&key, text.data() + begin, length);
    }
    key.words[1] |= uint64_t{length} << 56;
    return key;
  }

  PieceCache() : sets_(size_t{1} << kSetBits) {}

  // The set where a piece may be, whose line it fetches.
  size_t Fetch(const Key& key, uint32_t owner) const {
    const size_t place = PlaceOf(key, owner);
    __builtin_prefetch(&sets_[place]);
    return place;
  }
  // Writes the tokens of the piece by the tokenizer `owner` (not 0) to out[kIds], of which what is
  // behind them is undefined, and returns their number; 0: they are not known.
  size_t Find(const Key& key, size_t place, uint32_t owner, int32_t* out) const {
    for (const size_t at : {place, place ^ 1}) {
      const Set& set = sets_[at];
      const bool second = set[1].Is(key, owner);
      if (!second && !set[0].Is(key, owner)) continue;
      const Entry& entry = set[second ? 1 : 0];
      std::memcpy(out, entry.ids.data(), sizeof entry.ids);
      return 1 + (entry.ids[1] >= 0) + (entry.ids[2] >= 0);
    }
    return 0;
  }
  void Put(const Key& key, size_t place, uint32_t owner, std::span<const ModelToken> tokens) {
    if (tokens.empty() || tokens.size() > kIds) return;
    Set& set = sets_[place];
    if (set[1].owner != 0) sets_[place ^ 1][1] = set[1];  // where Find looks next
    set[1] = set[0];
    Entry& entry = set[0];
    entry.key = key;
    entry.owner = owner;
    entry.ids.fill(-1);
    for (size_t i = 0; i < tokens.size(); ++i) entry.ids[i] = tokens[i].id;
  }

 private:
  struct Entry {
    Key key = {};
    uint32_t owner = 0;
    std::array<int32_t, kIds> ids = {};

    bool Is(const Key& other, uint32_t by) const {
      return ((key.words[0] ^ other.words[0]) | (key.words[1] ^ other.words[1]) | (owner ^ by)) ==
             0;
    }
  };
  struct alignas(64) Set : std::array<Entry, 2> {};
  static_assert(sizeof(Set) == 64);

  // Multiplies by odd constants (of splitmix64
  // and the golden ratio); the high bits are mixed best.
  static size_t PlaceOf(const Key& key, uint32_t owner) {
    const uint64_t rest = (key.words[1] ^ owner) * 0xBF58476D1CE4E5B9;
    const uint64_t hash = (key.words[0] ^ rest ^ rest >> 32) * 0x9E3779B97F4A7C15;
    return hash >> (64 - kSetBits);
  }

  // By the length of a piece: ones in its bytes.
  static constexpr std::array<Key, kPieceBytes + 1> MakeMasks() {
    std::array<Key, kPieceBytes + 1> masks = {};
    for (size_t length = 0; length <= kPieceBytes; ++length) {
      for (size_t byte = 0; byte < length; ++byte) {
        masks[length].words[byte / 8] |= uint64_t{0xFF} << byte % 8 * 8;
      }
    }
    return masks;
  }
  static const std::array<Key, kPieceBytes + 1> kMasks;

  std::vector<Set> sets_;
};

inline constexpr std::array<PieceCache::Key, PieceCache::kPieceBytes + 1> PieceCache::kMasks =
    PieceCache::MakeMasks();

}  // namespace penstock::text
