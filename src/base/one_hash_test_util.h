// For tests of tables whose keys come from strangers: texts that share a hash.
#pragma once

#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace penstock {

// `count` different texts of 16 ASCII characters, control characters among them, for which
// libstdc++'s std::hash is one number: its MurmurHash64A has a fixed seed, and each step of it can
// be undone, so that a first half that is chosen tells the second.
inline std::vector<std::string> TextsOfOneHash(size_t count) {
  constexpr uint64_t kMultiplier = 0xC6A4A7935BD1E995ull, kSeed = 0xC70F6907ull;
  constexpr uint64_t kLetters = 0x6060606060606060ull, kHighBits = 0x8080808080808080ull;
  uint64_t inverse = kMultiplier;  // by Newton's method
  for (int i = 0; i < 6; ++i) inverse *= 2 - kMultiplier * inverse;
  const auto mix = [](uint64_t word) { return word ^ word >> 47; };  // its own inverse
  std::vector<std::string> texts;
  for (uint64_t i = 0; texts.size() < count; ++i) {
    uint64_t halves[2] = {kLetters, 0};
    for (int digit = 0; digit < 8; ++digit) halves[0] |= (i >> 4 * digit & 15) << 8 * digit;
    const uint64_t first = mix(halves[0] * kMultiplier) * kMultiplier;
    const uint64_t state = ((kSeed ^ 16 * kMultiplier) ^ first) * kMultiplier;
    halves[1] = mix((state ^ 12345) * inverse) * inverse;
    if ((halves[1] & kHighBits) != 0) continue;
    texts.emplace_back(reinterpret_cast<const char*>(halves), sizeof halves);
  }
  return texts;
}

// As many of the same length and kind, with hashes of their own.
inline std::vector<std::string> TextsOfManyHashes(size_t count) {
  std::vector<std::string> texts = TextsOfOneHash(count);
  for (std::string& text : texts) std::reverse(text.begin() + 8, text.end());
  return texts;
}

// The processor time of work(texts of one hash) over that of work(other texts): the least of seven
// each, taken in turn.
template <typename Work>
double OneHashRatio(size_t count, Work work) {
  const std::vector<std::string> given[2] = {TextsOfOneHash(count), TextsOfManyHashes(count)};
  double least[2] = {1e9, 1e9};
  for (int round = 0; round < 7; ++round) {
    for (const int which : {0, 1}) {
      const auto now = [] {
        timespec time{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
        return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
      };
      const double begin = now();
      work(given[which]);
      least[which] = std::min(least[which], now() - begin);
      // A table that walks needs no more rounds.
      if (least[which] > 5) return least[0] / std::max(least[1], 1e-9);
    }
  }
  return least[0] / least[1];
}

}  // namespace penstock
