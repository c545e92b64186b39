#include "base/seeded_hash.h"

#include <chrono>
#include <cstring>
#include <exception>
#include <random>

namespace penstock {

uint64_t HashSeed() {
  static const uint64_t seed = [] {
    const auto time = uint64_t(std::chrono::steady_clock::now().time_since_epoch().count());
    try {
      std::random_device random;
      return (uint64_t(random()) << 32 | random()) ^ time;
    } catch (const std::exception&) {  // no source of randomness: the time is better than nothing
      return MixWords(time, 0x9E3779B97F4A7C15ull);
    }
  }();
  return seed;
}

uint64_t HashBytes(std::string_view bytes, uint64_t seed) {
  // Eight bytes a step: a product with the seed in both factors, folded. Constants are odd numbers
  // without structure.
  constexpr uint64_t kStep = 0xD6E8FEB86659FD93ull, kLast = 0x9E3779B97F4A7C15ull;
  uint64_t h = seed ^ bytes.size();
  const char* p = bytes.data();
  size_t n = bytes.size();
  for (; n >= 8; n -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    h = MixWords(h ^ word, seed ^ kStep);
  }
  uint64_t word = 0;
  if (n >= 4) {
    uint32_t low, high;  // may overlap
    std::memcpy(&low, p, 4);
    std::memcpy(&high, p + n - 4, 4);
    word = uint64_t(high) << 32 | low;
  } else if (n > 0) {
    word = uint64_t(static_cast<unsigned char>(p[0])) |
           uint64_t(static_cast<unsigned char>(p[n / 2])) << 8 |
           uint64_t(static_cast<unsigned char>(p[n - 1])) << 16;
  }
  return MixWords(h ^ word, seed ^ kLast);
}

}  // namespace penstock
