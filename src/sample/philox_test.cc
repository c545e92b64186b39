#include "sample/philox.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "sample/test_util.h"

namespace penstock::sample {
namespace {

using Words = std::array<uint32_t, 4>;

// The lines "philox4x32 10" of kat_vectors in Random123's tests.
TEST(Philox, GivesThePublishedVectors) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(Philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// How seed and position enter, and which bits come out: a change would change every seeded text.
TEST(UniformAt, IsMadeOfTheFirstWords) {
  EXPECT_EQ(UniformAt(0, 0), static_cast<double>(0x6627e8d5e169c58du >> 11) / 9007199254740992.0);
  const uint64_t seed = 0x0123456789abcdef, position = 0xfedcba9876543210;
  const Words r = Philox4x32({0x76543210, 0xfedcba98, 7, 0}, {0x89abcdef, 0x01234567});
  EXPECT_EQ(UniformAt(seed, position, 7),
            static_cast<double>((uint64_t{r[0]} << 32 | r[1]) >> 11) / 9007199254740992.0);
}

TEST(UniformAt, IsUniformOverPositionsAndOverSeeds) {
  constexpr size_t kBins = 64, kDraws = 100000;
  const std::vector<double> even(kBins, 1.0 / kBins);
  std::vector<uint64_t> by_position(kBins), by_seed(kBins), pairs(kBins);
  for (size_t i = 0; i < kDraws; ++i) {
    const auto bin = [](double u, size_t bins) {
      return static_cast<size_t>(u * static_cast<double>(bins));
    };
    ++by_position[bin(UniformAt(42, i), kBins)];
    ++by_seed[bin(UniformAt(i, 42), kBins)];
    ++pairs[8 * bin(UniformAt(9, i), 8) + bin(UniformAt(9, i + 1), 8)];
  }
  EXPECT_TRUE(FollowsDistribution(by_position, even));
  EXPECT_TRUE(FollowsDistribution(by_seed, even));
  EXPECT_TRUE(FollowsDistribution(pairs, even));
  by_seed[3] += 300;
  by_seed[4] -= 300;
  EXPECT_FALSE(FollowsDistribution(by_seed, even));
}

}  // namespace
}  // namespace penstock::sample
