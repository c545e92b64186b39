// Random numbers by counter: Philox 4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011. A number is a function of key and counter and has no
// state, so it does not depend on other draws, nor on their order.
#pragma once

#include <array>
#include <cstdint>

namespace penstock::sample {

// Ten rounds over `counter` with `key`, as in the reference; every counter gives other 128 bits.
constexpr std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter,
                                             std::array<uint32_t, 2> key) {
  // Multipliers and increments of the paper, table 2 and section 3.3.
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kIncrement0 = 0x9E3779B9, kIncrement1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = kMultiplier0 * counter[0], b = kMultiplier1 * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += kIncrement0;
    key[1] += kIncrement1;
  }
  return counter;
}

// The number that draws the token at `position` of a generation with `seed`: uniform in [0, 1), a
// multiple of 2^-53. `stream` tells apart several draws for one position.
constexpr double UniformAt(uint64_t seed, uint64_t position, uint32_t stream = 0) {
  const std::array<uint32_t, 4> r = Philox4x32(
      {static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), stream, 0},
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  return static_cast<double>((uint64_t{r[0]} << 32 | r[1]) >> 11) * 0x1p-53;
}

}  // namespace penstock::sample
