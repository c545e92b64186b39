// The primitives against their formulas.
#include "cuda/simt.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace penstock::cuda {
namespace {

using emulator::Counters;
using emulator::LaunchOptions;

class SimtTest : public testing::Test {
 protected:
  // On one warp.
  void OnWarp(const std::function<void()>& work, size_t shared = 0) {
    const Status status = emulator::Launch(
        {1, 1, 32, shared}, options_,
        [&] {
          simt::WaitForPrerequisites();
          work();
        },
        &counters_);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  LaunchOptions options_;
  Counters counters_;
};

TEST_F(SimtTest, EveryThreadRunsOnce) {
  std::vector<int> seen(3 * 2 * 64);
  const Status status = emulator::Launch({3, 2, 64}, {}, [&] {
    simt::WaitForPrerequisites();
    EXPECT_EQ(simt::GridX(), 3);
    EXPECT_EQ(simt::GridY(), 2);
    EXPECT_EQ(simt::WarpIndex() * 32 + simt::Lane(), simt::ThreadX());
    ++seen[static_cast<size_t>((simt::BlockY() * 3 + simt::BlockX()) * 64 + simt::ThreadX())];
  });
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
}

TEST_F(SimtTest, SumsAreButterflies) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> in(32), sums(32), most(32);
  for (float& x : in) x = normal(random);
  OnWarp([&] {
    const auto lane = static_cast<size_t>(simt::Lane());
    sums[lane] = simt::WarpSum(in[lane]);
    most[lane] = simt::WarpMax(in[lane]);
    EXPECT_EQ(simt::Shuffle(in[lane], 5), in[5]);
    EXPECT_EQ(simt::ShuffleXor(in[lane], 9), in[lane ^ 9]);
  });
  std::vector<float> tree = in;
  for (size_t mask = 16; mask > 0; mask /= 2) {
    std::vector<float> next(32);
    for (size_t i = 0; i < 32; ++i) next[i] = tree[i] + tree[i ^ mask];
    tree = next;
  }
  EXPECT_EQ(sums, tree);
  EXPECT_EQ(most, std::vector<float>(32, *std::max_element(in.begin(), in.end())));
}

// Rows of 128 bytes in which 16-byte columns change places by the row: no two of eight rows share
// banks. Without that all do.
TEST_F(SimtTest, MatricesAndTheirConflicts) {
  for (const bool swizzles : {true, false}) {
    counters_ = {};
    OnWarp(
        [&] {
          auto* const shared = simt::Shared<uint16_t>();
          const auto at = [&](int row, int column) {  // of 64 columns
            const int part = swizzles ? column / 8 ^ row % 8 : column / 8;
            return shared + row * 64 + part * 8 + column % 8;
          };
          for (int i = simt::Lane(); i < 16 * 64; i += 32) {
            *at(i / 64, i % 64) = static_cast<uint16_t>(i);
          }
          simt::SyncWarp();
          const int lane = simt::Lane();
          uint32_t r[4];
          // Rows 0 to 15, columns 16 to 31: as the four parts of an operand of 16x16.
          simt::LoadMatrix4(r, at(lane % 16, 16 + lane / 16 * 8));
          for (int i = 0; i < 4; ++i) {
            const int row = lane / 4 + i % 2 * 8, column = 16 + i / 2 * 8 + 2 * (lane % 4);
            EXPECT_EQ(r[i] & 0xFFFF, static_cast<uint32_t>(row * 64 + column));
            EXPECT_EQ(r[i] >> 16, static_cast<uint32_t>(row * 64 + column + 1));
          }
          simt::LoadMatrix4Transposed(r, at(lane % 16, 16 + lane / 16 * 8));
          for (int i = 0; i < 4; ++i) {
            const int row = 2 * (lane % 4) + i % 2 * 8, column = 16 + i / 2 * 8 + lane / 4;
            EXPECT_EQ(r[i] & 0xFFFF, static_cast<uint32_t>(row * 64 + column));
            EXPECT_EQ(r[i] >> 16, static_cast<uint32_t>((row + 1) * 64 + column));
          }
        },
        16 * 128);
    EXPECT_EQ(counters_.shared_requests, 8u);
    EXPECT_EQ(counters_.shared_waves, swizzles ? 8u : 64u);
  }
}

TEST_F(SimtTest, TransposesAMatrix) {
  OnWarp([] {
    const auto cell = [](int row, int column) { return static_cast<uint32_t>(row * 8 + column); };
    const int row = simt::Lane() / 4, column = 2 * (simt::Lane() % 4);
    const uint32_t got = simt::Transpose(cell(row, column) | cell(row, column + 1) << 16);
    EXPECT_EQ(got, cell(column, row) | cell(column + 1, row) << 16);
  });
}

TEST_F(SimtTest, ProductsAreThoseOfTheModel) {
  std::mt19937 random(8);
  for (const TensorCore core : {kHopper, kAmpere}) {
    for (const bool half : {true, false}) {
      options_.tensor_core = core;
      float a[16][16], b[8][16], d[16][8], want[16][8];
      const Operand type = half ? Operand::kF16 : Operand::kBf16;
      std::vector<uint32_t> a_bits(16 * 8), b_bits(8 * 8);
      const auto draw = [&] {
        const float x =
            std::ldexp(static_cast<float>(static_cast<int>(random() % 2001) - 1000), -7);
        return half ? simt::PackHalf(x, -x) : simt::PackBf16(x, 3 * x);
      };
      for (int i = 0; i < 16 * 8; ++i) a_bits[static_cast<size_t>(i)] = draw();
      for (int i = 0; i < 8 * 8; ++i) b_bits[static_cast<size_t>(i)] = draw();
      const auto value = [&](const std::vector<uint32_t>& bits, int row, int k) {
        return OperandValue(
            static_cast<uint16_t>(bits[static_cast<size_t>(row * 8 + k / 2)] >> k % 2 * 16), type);
      };
      for (int k = 0; k < 16; ++k) {
        for (int row = 0; row < 16; ++row) a[row][k] = value(a_bits, row, k);
        for (int row = 0; row < 8; ++row) b[row][k] = value(b_bits, row, k);
      }
      for (int i = 0; i < 16; ++i) {
        for (int j = 0; j < 8; ++j) d[i][j] = want[i][j] = static_cast<float>(i - j) / 3;
      }
      MmaTile(core, type, a, b, want);
      OnWarp([&] {
        const int g = simt::Lane() / 4, t = simt::Lane() % 4;
        const auto two = [](const std::vector<uint32_t>& bits, int row, int pair) {
          return bits[static_cast<size_t>(row * 8 + pair)];
        };
        const uint32_t fragment[4] = {two(a_bits, g, t), two(a_bits, g + 8, t),
                                      two(a_bits, g, t + 4), two(a_bits, g + 8, t + 4)};
        float sum[4] = {d[g][2 * t], d[g][2 * t + 1], d[g + 8][2 * t], d[g + 8][2 * t + 1]};
        const uint32_t b0 = two(b_bits, g, t), b1 = two(b_bits, g, t + 4);
        if (half) {
          simt::MmaHalf(sum, fragment, b0, b1);
        } else {
          simt::Mma(sum, fragment, b0, b1);
        }
        for (int i = 0; i < 4; ++i) EXPECT_EQ(sum[i], want[g + i / 2 * 8][2 * t + i % 2]);
      });
    }
  }
}

TEST_F(SimtTest, SectorsOfGlobalMemory) {
  std::vector<simt::Words> memory(32 * 8);
  OnWarp([&] {
    const auto lane = static_cast<size_t>(simt::Lane());
    (void)simt::Load16(&memory[lane]);
    simt::Store16(&memory[8 * lane], {});
  });
  EXPECT_EQ(counters_.global_requests, 2u);
  EXPECT_GE(counters_.global_sectors, 16u + 32u);
  EXPECT_LE(counters_.global_sectors, 17u + 32u) << "a vector may begin in the midst of a sector";
}

TEST_F(SimtTest, SharedAccessesOf16Bytes) {
  OnWarp(
      [] {
        auto* const shared = simt::Shared<char>();
        simt::StoreShared16(shared + 16 * simt::Lane(), {{1, 2, 3, 4}});
        simt::SyncWarp();
        EXPECT_EQ(simt::LoadShared16(shared + 16 * (simt::Lane() ^ 3)).w[2], 3u);
        (void)simt::LoadShared16(shared + 128 * (simt::Lane() % 4));
      },
      512);
  // Four of them each; in the last, eight lanes read four lines of one group of banks.
  EXPECT_EQ(counters_.shared_requests, 12u);
  EXPECT_EQ(counters_.shared_waves, 4u + 4u + 16u);
}

TEST_F(SimtTest, RoundsToTheNearestOperand) {
  for (const Operand type : {Operand::kBf16, Operand::kF16}) {
    const auto pack = [type](float value) {
      return static_cast<uint16_t>(type == Operand::kF16 ? simt::PackHalf(value, 0)
                                                         : simt::PackBf16(value, 0));
    };
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      const float value = OperandValue(static_cast<uint16_t>(bits), type);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(OperandValue(pack(value), type)));
        continue;
      }
      ASSERT_EQ(pack(value), bits);
      const float next = OperandValue(static_cast<uint16_t>(bits + 1), type);
      if (!std::isfinite(value) || !std::isfinite(next) || (bits & 0x7FFF) == 0x7FFF) continue;
      // In the middle between two: the even one; beside it the nearer one.
      const auto middle =
          static_cast<float>((static_cast<double>(value) + static_cast<double>(next)) / 2);
      ASSERT_EQ(pack(middle), bits % 2 == 0 ? bits : bits + 1) << bits;
      ASSERT_EQ(pack(std::nextafter(middle, value)), bits);
      ASSERT_EQ(pack(std::nextafter(middle, next)), bits + 1);
    }
  }
  EXPECT_EQ(simt::PackHalf(65519, 65520), 0x7C007BFFu);
  EXPECT_EQ(simt::PackBf16(1, -2), 0xC0003F80u);
}

// Units in the last place of a float.
double Ulps(float got, double want) {
  const auto near = static_cast<float>(want);
  const double unit = std::fabs(static_cast<double>(std::nextafter(near, INFINITY)) - near);
  return std::fabs(got - want) / unit;
}

TEST_F(SimtTest, FunctionsAreNearTheirValues) {
  double exp = 0, exp2 = 0, sigmoid = 0, rsqrt = 0, reciprocal = 0, gelu = 0;
  for (float x = -87; x < 88; x += 0.00317F) {
    exp = std::max(exp, Ulps(simt::Exp(x), std::exp(double{x})));
    exp2 = std::max(exp2, Ulps(simt::Exp2(x), std::exp2(double{x})));
    if (std::fabs(x) < 20) {
      sigmoid = std::max(sigmoid, Ulps(simt::Sigmoid(x), 1 / (1 + std::exp(-double{x}))));
      const double want = 0.5 * x * std::erfc(-double{x} / std::sqrt(2.0));
      gelu = std::max(gelu, std::fabs(simt::Gelu(x) - want) / (1 + std::fabs(want)));
    }
    if (x > 0) rsqrt = std::max(rsqrt, Ulps(simt::Rsqrt(x), 1 / std::sqrt(double{x})));
    if (x >= 1) reciprocal = std::max(reciprocal, Ulps(simt::Reciprocal(x), 1 / double{x}));
  }
  for (float x = 1; x < 2; x += 1e-5F) {
    reciprocal = std::max(reciprocal, Ulps(simt::Reciprocal(x), 1 / double{x}));
  }
  EXPECT_LE(exp, 2.0);
  EXPECT_LE(exp2, 3.0);
  EXPECT_LE(sigmoid, 4.0);
  EXPECT_LE(rsqrt, 1.5);
  EXPECT_LE(reciprocal, 2.0);
  EXPECT_LE(gelu, 1e-7);
  EXPECT_EQ(simt::Exp(0), 1.0F);
  EXPECT_TRUE(std::isnan(simt::Exp(NAN)));
  EXPECT_NEAR(simt::Reciprocal(0x1p125F), 0x1p-125F, 0x1p-147F);
  EXPECT_LT(simt::Sigmoid(-INFINITY), 1e-37F);
  EXPECT_EQ(simt::Sigmoid(INFINITY), 1.0F);
  EXPECT_TRUE(std::isnan(simt::Sigmoid(NAN)));
  EXPECT_EQ(simt::Gelu(INFINITY), INFINITY);
  EXPECT_EQ(simt::Gelu(70000.0F), 70000.0F);
  EXPECT_NEAR(simt::Gelu(-INFINITY), 0, 1e-16);
  EXPECT_TRUE(std::isnan(simt::Gelu(NAN)));
}

}  // namespace
}  // namespace penstock::cuda
