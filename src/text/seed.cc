#include "text/seed.h"

#include <chrono>
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

}  // namespace penstock
