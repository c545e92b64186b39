// PieceTable: the tokens of short pieces that a thread met lately, for all tokenizers.
//
// A model's tokens of a piece depend on the piece alone, and words of a language come again: a look
// here takes the place of walks down tries, merges or Viterbi. A table of fixed size, 64 bytes of
// entries for each value of the hash and one of its neighbour's, so pieces that collide beyond these
// cost what they would cost without it.
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

// kMaxIds: the most tokens of a piece. There are 2^kBits sets of 64 bytes.
template <size_t kWords, size_t kMaxIds, int kBits>
class PieceTable {
 public:
  static constexpr size_t kPieceBytes = 8 * kWords - 1;  // the longest piece that is kept
  static constexpr size_t kIds = kMaxIds;
  static constexpr int kSetBits = kBits;
  static constexpr size_t kWays = 64 / (8 * kWords + 4 + 4 * kMaxIds);  // entries of a set

  // A piece as the table has it: its bytes, zeros, and its length in the last byte.
  struct Key {
    uint64_t words[kWords];
  };
  // The piece text[begin, begin + length), 1 <= length <= kPieceBytes. Without branches on the
  // length, which no processor foresees, but near the end of the text.
  static Key KeyOf(std::string_view text, size_t begin, size_t length) {
    static_assert(std::endian::native == std::endian::little);
    Key key = {};
    if (text.size() - begin >= sizeof key) [[likely]] {
      std::memcpy(&key, text.data() + begin, sizeof key);
      const Key& mask = kMasks[length];
      for (size_t i = 0; i < kWords; ++i) key.words[i] &= mask.words[i];
    } else {
      std::memcpy(&key, text.data() + begin, length);
    }
    key.words[kWords - 1] |= uint64_t{length} << 56;
    return key;
  }

  PieceTable() : sets_(size_t{1} << kSetBits) {}

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
      const bool last = set[kWays - 1].Is(key, owner);
      if (!last && !set[0].Is(key, owner)) continue;
      const Entry& entry = set[last ? kWays - 1 : 0];
      std::memcpy(out, entry.ids.data(), sizeof entry.ids);
      size_t count = 1;
      for (size_t i = 1; i < kIds; ++i) count += entry.ids[i] >= 0;
      return count;
    }
    return 0;
  }
  void Put(const Key& key, size_t place, uint32_t owner, std::span<const ModelToken> tokens) {
    if (tokens.empty() || tokens.size() > kIds) return;
    Set& set = sets_[place];
    Entry& oldest = set[kWays - 1];
    if (oldest.owner != 0) sets_[place ^ 1][kWays - 1] = oldest;  // where Find looks next
    oldest = set[0];
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
      uint64_t differs = owner ^ by;
      for (size_t i = 0; i < kWords; ++i) differs |= key.words[i] ^ other.words[i];
      return differs == 0;
    }
  };
  struct alignas(64) Set : std::array<Entry, kWays> {};
  static_assert(sizeof(Set) == 64 && (kWays == 1 || kWays == 2));

  // Multiplies by odd constants (of splitmix64 and the golden ratio); the high bits are mixed best.
  static size_t PlaceOf(const Key& key, uint32_t owner) {
    uint64_t rest = owner;
    for (size_t i = kWords - 1; i > 0; --i) {
      rest = (key.words[i] ^ rest ^ rest >> 32) * 0xBF58476D1CE4E5B9;
    }
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

template <size_t kWords, size_t kMaxIds, int kBits>
inline constexpr std::array<typename PieceTable<kWords, kMaxIds, kBits>::Key,
                            PieceTable<kWords, kMaxIds, kBits>::kPieceBytes + 1>
    PieceTable<kWords, kMaxIds, kBits>::kMasks = MakeMasks();

using PieceCache = PieceTable<2, 3, 14>;  // up to 15 bytes and 3 tokens; 1 MiB a thread
// Up to 31 bytes and 7 tokens: words of scripts with two or three bytes a letter; 512 KiB a thread.
using LongPieceCache = PieceTable<4, 7, 13>;

}  // namespace penstock::text
