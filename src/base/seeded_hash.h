// Hashes of keys that strangers choose: names in requests and in files, tokens, numbers of
// templates. They are seeded, another seed in each process, so that no client can choose keys that
// share a hash and turn each look-up into a walk over all of them. The seed decides only the places
// in a table: no result depends on it.
//
// Tables of texts are SeededSet and SeededMap; std::hash of a text has a seed that is known to
// everybody, and tools/check_layers.py refuses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace penstock {

uint64_t HashSeed();

// Mixes two words to one: the halves of their 128-bit product.
inline uint64_t MixWords(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// 64-bit hashes of a text and of a number.
uint64_t HashBytes(std::string_view bytes, uint64_t seed);
inline uint64_t HashWord(uint64_t word, uint64_t seed) {
  return MixWords(word ^ seed, seed ^ 0x9E3779B97F4A7C15ull);
}

// Hashes std::string, std::string_view and literals alike.
struct SeededHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return HashBytes(text, HashSeed()); }
};

// `Key`: std::string, or std::string_view of a text that outlives the table.
template <typename Key>
using SeededSet = std::unordered_set<Key, SeededHash, std::equal_to<>>;
template <typename Key, typename T>
using SeededMap = std::unordered_map<Key, T, SeededHash, std::equal_to<>>;

}  // namespace penstock
