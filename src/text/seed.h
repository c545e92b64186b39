// A seed for hashes whose keys strangers choose: random, another one in each process. It decides
// only the places in a table, so no result depends on it.
#pragma once

#include <cstdint>

namespace penstock {

uint64_t HashSeed();

// Mixes two words to one: the halves of their 128-bit product.
inline uint64_t MixWords(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace penstock
