#include "cuda/mma_model.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

namespace penstock::cuda {
namespace {

TEST(MmaModel, ExactSumsAreExact) {
  const float a[] = {1, 2, 3, 4}, b[] = {5, -6, 7, 0.5};
  EXPECT_EQ(MmaStep(a, b, 0.25F, 4, 25, Operand::kBf16), 5 - 12 + 21 + 2 + 0.25F);
}

// What is cut is cut towards zero, on both sides of it, and not rounded.
TEST(MmaModel, SmallAddendsAreCut) {
  const float one[] = {1}, tiny = std::ldexp(1.0F, -25), half = std::ldexp(1.0F, -26);
  EXPECT_EQ(MmaStep(one, &tiny, 1.0F, 1, 25, Operand::kBf16), 1.0F)
      << "kept in the sum, cut to f32";
  const float ones[] = {1, 1}, two[] = {tiny, tiny};
  EXPECT_EQ(MmaStep(ones, two, -1.0F, 2, 25, Operand::kBf16), -1.0F + 2 * tiny);
  const float halves[] = {half, half};
  EXPECT_EQ(MmaStep(ones, halves, -1.0F, 2, 25, Operand::kBf16), -1.0F) << "each is cut by itself";
  EXPECT_EQ(MmaStep(ones, two, -1.0F, 2, 24, Operand::kBf16), -1.0F) << "a bit less is kept";
}

TEST(MmaModel, ExponentsOfOperandsHaveALeast) {
  // The product of two subnormal halves counts as 2^-28, above what it is.
  const float a = OperandValue(1, Operand::kF16);
  EXPECT_EQ(a, std::ldexp(1.0F, -24));
  const float c = std::ldexp(1.0F, -60);
  EXPECT_EQ(MmaStep(&a, &a, c, 1, 25, Operand::kF16), std::ldexp(1.0F, -48));
}

TEST(MmaModel, InfiniteAndNan) {
  const float inf[] = {INFINITY, 1}, one[] = {1, 1}, minus[] = {1, -INFINITY};
  EXPECT_EQ(MmaStep(inf, one, 3, 2, 25, Operand::kBf16), INFINITY);
  EXPECT_TRUE(std::isnan(MmaStep(inf, minus, 3, 2, 25, Operand::kBf16)));
}

TEST(MmaModel, OperandsOfAllBits) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = OperandValue(half, Operand::kF16);
    const int exponent = bits >> 10 & 31;
    const double expected = std::ldexp(exponent == 0 ? bits & 0x3FF : (bits & 0x3FF) | 0x400,
                                       std::max(exponent, 1) - 25) *
                            ((bits & 0x8000) != 0 ? -1 : 1);
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(value), (bits & 0x3FF) != 0);
    } else {
      EXPECT_EQ(value, static_cast<float>(expected)) << bits;
    }
  }
  EXPECT_EQ(OperandValue(0x3F80, Operand::kBf16), 1.0F);
  EXPECT_EQ(OperandValue(0xC040, Operand::kBf16), -3.0F);
}

// Against double: a step loses a part of 2^-24 of its largest product, a tile its two steps'.
TEST(MmaModel, TilesAreNearTheExactSum) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const TensorCore core : {kHopper, kAmpere}) {
    for (const Operand type : {Operand::kBf16, Operand::kF16}) {
      float a[16][16], b[8][16], d[16][8], c[16][8];
      const auto draw = [&] {
        const uint32_t bits = static_cast<uint32_t>(random());
        const float value = OperandValue(static_cast<uint16_t>(bits), type);
        return std::isfinite(value) && std::fabs(value) < 100 && std::fabs(value) > 1e-3F
                   ? value
                   : OperandValue(0x3C00, type);
      };
      for (auto& row : a)
        for (float& x : row) x = draw();
      for (auto& row : b)
        for (float& x : row) x = draw();
      for (int i = 0; i < 16; ++i)
        for (int j = 0; j < 8; ++j) d[i][j] = c[i][j] = normal(random);
      MmaTile(core, type, a, b, d);
      for (int i = 0; i < 16; ++i) {
        for (int j = 0; j < 8; ++j) {
          double sum = c[i][j], most = std::fabs(c[i][j]);
          for (int k = 0; k < 16; ++k) {
            sum += static_cast<double>(a[i][k]) * b[j][k];
            most = std::max(most, std::fabs(static_cast<double>(a[i][k]) * b[j][k]));
          }
          EXPECT_NEAR(d[i][j], sum, most * 17 * std::ldexp(1.0, -23));
        }
      }
    }
  }
}

// The tile's quick way against the plain one, on bits of all kinds.
TEST(MmaModel, TilesAreChainsOfSteps) {
  std::mt19937 random(11);
  for (int round = 0; round < 3000; ++round) {
    const TensorCore core = round % 2 == 0 ? kHopper : kAmpere;
    const Operand type = round / 2 % 2 == 0 ? Operand::kBf16 : Operand::kF16;
    // Wide ranges, narrow ones, subnormals, now and then infinite or no number.
    const int spread = round % 5;
    const auto draw = [&] {
      auto bits = static_cast<uint16_t>(random());
      const uint16_t exponent = type == Operand::kF16 ? 0x7C00 : 0x7F80;
      if (spread > 0 && (bits & exponent) == exponent) bits &= 0x87FF;
      if (spread == 2) bits = static_cast<uint16_t>((bits & ~exponent) | (exponent / 2 & exponent));
      if (spread == 3) bits &= static_cast<uint16_t>(~exponent);
      if (spread == 4 && random() % 3 == 0) bits = 0;
      return OperandValue(bits, type);
    };
    float a[16][16], b[8][16], d[16][8], want[16][8];
    for (auto& row : a) {
      for (float& x : row) x = draw();
    }
    for (auto& row : b) {
      for (float& x : row) x = draw();
    }
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 8; ++j) {
        d[i][j] = want[i][j] = round % 7 == 0 ? 0.0F : draw();
        for (int k = 0; k < 16; k += core.products) {
          want[i][j] = MmaStep(&a[i][k], &b[j][k], want[i][j], core.products, core.bits, type);
        }
      }
    }
    MmaTile(core, type, a, b, d);
    for (int i = 0; i < 16; ++i) {
      for (int j = 0; j < 8; ++j) {
        if (std::isnan(want[i][j])) {
          ASSERT_TRUE(std::isnan(d[i][j]));
        } else {
          ASSERT_EQ(std::bit_cast<uint32_t>(d[i][j] + 0.0F),
                    std::bit_cast<uint32_t>(want[i][j] + 0.0F))
              << round;
        }
      }
    }
  }
}

}  // namespace
}  // namespace penstock::cuda
