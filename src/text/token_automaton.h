// All keys that occur in a text, found in time linear in the text, however long the keys are.
//
// Walking a trie from every place of a text costs up to the longest key at each place. That is
// quickest for published vocabularies, whose tokens have some ten bytes, and hopeless for one with
// a token of 50,000 bytes. Vocabularies with a key of more than kLongKey bytes use this automaton
// (Aho and Corasick, "Efficient string matching", 1975).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/vocabulary.h"

namespace penstock::text {

inline constexpr size_t kLongKey = 256;

// Reads a text byte by byte and tells the keys that end at each byte.
class TokenAutomaton {
 public:
  static constexpr uint32_t kNone = ByteTrie::kNone;
  static constexpr uint32_t kStart = ByteTrie::kRoot;

  // No key is empty. The last of equal keys wins. 25 bytes for each byte of the keys at most.
  void Build(std::vector<std::pair<std::string_view, int32_t>> keys);
  bool empty() const { return trie_.empty(); }

  uint32_t Next(uint32_t state, unsigned char byte) const {
    for (;;) {
      const uint32_t next = trie_.Child(state, byte);
      if (next != kNone) return next;
      if (state == kStart) return kStart;
      state = shorter_[state];
    }
  }
  // The longest key that ends where `state` was reached, as a state; then the next shorter one.
  uint32_t Longest(uint32_t state) const { return ending_[state]; }
  uint32_t Shorter(uint32_t key) const { return ending_[shorter_[key]]; }
  int32_t Value(uint32_t key) const { return trie_.Value(key); }
  uint32_t Length(uint32_t key) const { return depth_[key]; }

 private:
  ByteTrie trie_;
  std::vector<uint32_t> shorter_;  // the longest other state that ends the same way
  std::vector<uint32_t> ending_;   // the state itself, or the longest shorter one, that is a key
  std::vector<uint32_t> depth_;
};

// Tells the longest key that starts at each byte.
class LongestKeys {
 public:
  struct Match {
    int32_t value;  // -1: none
    uint32_t length;
  };

  // As TokenAutomaton::Build; builds nothing unless a key is longer than kLongKey.
  void Build(const std::vector<std::pair<std::string_view, int32_t>>& keys);
  bool empty() const { return backwards_.empty(); }
  // (*out)[i]: the longest key that starts text[i..].
  void Find(std::string_view text, std::vector<Match>* out) const;

 private:
  TokenAutomaton backwards_;  // of the keys from back to front
};

}  // namespace penstock::text
