#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "cuda/gemm_mma-inl.h"
#include "cuda/gemm_narrow-inl.h"
#include "cuda/gemm_wgmma-inl.h"

namespace penstock::cuda {
namespace {

using emulator::Counters;
using emulator::LaunchOptions;
using emulator::WakeOrder;

// A product with its operands, as a kernel and as doubles see them.
struct Product {
  Product(int rows_in, int k_in, int features_in, bool half_in, uint32_t seed)
      : rows(rows_in), k(k_in), features(features_in), half(half_in), random(seed) {
    Fill(&x, rows * k, 1.0F);
    Fill(&plain, features * k, 1.0F / std::sqrt(static_cast<float>(k)));
    w.resize(static_cast<size_t>((features + 15) / 16 * 16 * k));
    for (int feature = 0; feature < features; ++feature) {
      for (int at = 0; at < k; ++at) {
        const int piece = feature / 16 * (k / 64) + at / 64, r = feature % 16, c = at % 64 / 8;
        w[static_cast<size_t>(piece * 1024 + r * 64 + (c ^ r % 8) * 8 + at % 8)] =
            plain[static_cast<size_t>(feature * k + at)];
      }
    }
    std::normal_distribution<float> normal;
    bias.resize(static_cast<size_t>(features));
    residual.resize(static_cast<size_t>(rows * features));
    for (float& value : bias) value = normal(random);
    for (float& value : residual) value = normal(random);
    Multiply();
  }

  // Sets `exact`.
  void Multiply() {
    exact.resize(residual.size());
    for (int row = 0; row < rows; ++row) {
      for (int feature = 0; feature < features; ++feature) {
        double sum = 0;
        for (int at = 0; at < k; ++at) {
          sum += static_cast<double>(Value(x[static_cast<size_t>(row * k + at)])) *
                 Value(plain[static_cast<size_t>(feature * k + at)]);
        }
        exact[static_cast<size_t>(row * features + feature)] = sum;
      }
    }
  }

  float Value(uint16_t bits) const {
    return OperandValue(bits, half ? Operand::kF16 : Operand::kBf16);
  }
  void Fill(std::vector<uint16_t>* to, int count, float scale) {
    std::normal_distribution<float> normal(0, scale);
    for (int i = 0; i < count; ++i) {
      const float value = normal(random);
      to->push_back(
          static_cast<uint16_t>(half ? simt::PackHalf(value, 0) : simt::PackBf16(value, 0)));
    }
  }

  int rows, k, features;
  bool half;
  std::mt19937 random;
  std::vector<uint16_t> x, plain, w;
  std::vector<float> bias, residual;
  std::vector<double> exact;  // without bias, activation and residual
};

class GemmMmaTest : public testing::Test {
 protected:
  // Rows [first, first + count) of the product by one of the tiles. The operands of the result are
  // those of its floats.
  template <typename Kernel>
  std::vector<float> Run(const Product& p, int first, int count,
                         program::Activation activation = program::Activation::kNone,
                         const Product* up = nullptr) {
    std::vector<float> y(static_cast<size_t>(count * p.features), NAN);
    const int stride16 = (p.features + 63) / 64 * 64;
    std::vector<uint16_t> y16(static_cast<size_t>(count * stride16), 0x7FFF);
    GemmArgs args = {.x = p.x.data() + first * p.k,
                     .w = p.w.data(),
                     .up = up == nullptr ? nullptr : up->w.data(),
                     .rows = &count,
                     .stride = p.k,
                     .k = p.k};
    args.to = {.y = y.data(),
               .y16 = y16.data(),
               .features = p.features,
               .stride16 = stride16,
               .activation = activation,
               .half = p.half};
    if (with_bias_) {
      args.to.bias = p.bias.data();
      args.to.bias_up = up == nullptr ? nullptr : up->bias.data();
      args.to.residual = p.residual.data() + first * p.features;
    }
    constexpr int kRows = Kernel::kTileRows, kFeatures = Kernel::kTileFeatures;
    const int columns = up == nullptr ? stride16 : 2 * stride16;
    // One block of rows more than there are: it leaves.
    emulator::LaunchShape shape = {(columns + kFeatures - 1) / kFeatures,
                                   (count + kRows - 1) / kRows + 1, Kernel::kThreads,
                                   Kernel::kSharedBytes};
    constexpr bool kTakesTiles = requires(const GemmWgmmaArgs& a) { Kernel::Run(a); };
    if (kTakesTiles) {
      shape.grid_x = blocks_;
      shape.grid_y = 1;
    }
    const auto kernel = [&] {
      if constexpr (kTakesTiles) {
        Kernel::Run(GemmWgmmaArgs{{args.x, count, p.k, p.k, kRows, {}}, args});
      } else if constexpr (requires(const GemmNarrowArgs& a) { Kernel::Run(a); }) {
        Kernel::Run(GemmNarrowArgs{args, {}, {}, true});
      } else {
        Kernel::Run(args);
      }
    };
    const Status status = Launch(shape, options_, kernel, &counters_);
    EXPECT_TRUE(status.ok()) << status.message();
    for (int row = 0; row < count; ++row) {
      for (int i = 0; i < stride16; ++i) {
        const float want = i < p.features ? y[static_cast<size_t>(row * p.features + i)] : 0.0F;
        EXPECT_EQ(y16[static_cast<size_t>(row * stride16 + i)],
                  static_cast<uint16_t>(PackOperands(want, 0, p.half)));
      }
    }
    return y;
  }
  template <bool kHalf>
  std::vector<std::vector<float>> AllTiles(const Product& p, int first, int count) {
    return {Run<GemmMmaLarge<kHalf>>(p, first, count), Run<GemmMmaMiddle<kHalf>>(p, first, count),
            Run<GemmNarrow<kHalf>>(p, first, count), Run<GemmWgmma<kHalf>>(p, first, count)};
  }

  // The whole product, whatever order threads and copies take.
  template <typename Kernel>
  void ExpectInAnyOrder(const Product& p, const std::vector<float>& want) {
    for (const WakeOrder order :
         {WakeOrder::kFirst, WakeOrder::kLast, WakeOrder::kRandom, WakeOrder::kWarps}) {
      for (uint64_t seed = 1; seed <= 4; ++seed) {
        options_.order = order;
        options_.seed = seed;
        options_.late_copies = seed % 2 == 0;
        EXPECT_EQ(Run<Kernel>(p, 0, p.rows), want);
      }
    }
  }

  LaunchOptions options_;
  Counters counters_;
  bool with_bias_ = true;
  int blocks_ = 1;  // of a kernel that takes tile after tile
};

TEST_F(GemmMmaTest, IsNearTheExactProduct) {
  for (const TensorCore core : {kHopper, kAmpere}) {
    options_.tensor_core = core;
    for (const auto& [rows, k, features] : {std::tuple{1, 64, 16}, {5, 192, 48}, {33, 320, 80}}) {
      const Product p(rows, k, features, true, 7);
      const std::vector<float> y = Run<GemmNarrow<true>>(p, 0, rows, program::Activation::kGelu);
      for (size_t i = 0; i < y.size(); ++i) {
        const double sum = p.exact[i] + p.bias[i % static_cast<size_t>(features)];
        const double want = 0.5 * sum * (1 + std::erf(sum / std::sqrt(2.0))) + p.residual[i];
        ASSERT_NEAR(y[i], want, 1e-5) << rows << " " << k << " " << features << " " << i;
      }
    }
  }
}

// The same bits alone and among others, in every tile.
TEST_F(GemmMmaTest, ARowsBitsAreItsOwn) {
  for (const bool half : {true, false}) {
    const Product p(70, 576, 96, half, 9);
    const auto all = half ? AllTiles<true>(p, 0, p.rows) : AllTiles<false>(p, 0, p.rows);
    for (size_t tile = 1; tile < all.size(); ++tile) EXPECT_EQ(all[tile], all[0]);
    for (const auto& [first, count] : {std::pair{0, 1}, {37, 1}, {20, 33}}) {
      const auto some = half ? AllTiles<true>(p, first, count) : AllTiles<false>(p, first, count);
      const auto begin = all[0].begin() + first * p.features;
      for (const auto& y : some) {
        EXPECT_EQ(y, std::vector<float>(begin, begin + count * p.features));
      }
    }
  }
}

TEST_F(GemmMmaTest, NoOrderChangesIt) {
  const Product p(40, 320, 64, false, 3);
  ExpectInAnyOrder<GemmMmaMiddle<false>>(p, Run<GemmMmaMiddle<false>>(p, 0, p.rows));
}

// Chunks of k in one turn of the narrow kernel's warps, in several, and a last one that is cut.
TEST_F(GemmMmaTest, NarrowAddsChunksInOrder) {
  for (const int k : {64, 256, 320, 1024, 1088, 2304}) {
    for (const bool half : {true, false}) {
      const Product p(34, k, 24, half, static_cast<uint32_t>(k));
      EXPECT_EQ(
          half ? Run<GemmNarrow<true>>(p, 0, p.rows) : Run<GemmNarrow<false>>(p, 0, p.rows),
          half ? Run<GemmMmaMiddle<true>>(p, 0, p.rows) : Run<GemmMmaMiddle<false>>(p, 0, p.rows))
          << k;
    }
  }
}

TEST_F(GemmMmaTest, NoOrderChangesTheNarrowOne) {
  const Product p(40, 1344, 24, true, 3);
  ExpectInAnyOrder<GemmNarrow<true>>(p, Run<GemmMmaMiddle<true>>(p, 0, p.rows));
}

TEST_F(GemmMmaTest, NoBanksConflictInTheNarrowOne) {
  const Product p(32, 512, 16, true, 3);
  (void)Run<GemmNarrow<true>>(p, 0, p.rows);
  EXPECT_EQ(counters_.shared_waves, counters_.shared_requests);
}

TEST_F(GemmMmaTest, NoBanksConflict) {
  const Product p(128, 128, 128, true, 3);
  (void)Run<GemmMmaLarge<true>>(p, 0, p.rows);
  EXPECT_EQ(counters_.shared_waves, counters_.shared_requests);
  EXPECT_EQ(counters_.mma, 128u / 16 * 128 / 8 * 128 / 16);
  // Each warp reads its 64 rows and 32 features of every step, four matrices a load.
  EXPECT_EQ(counters_.shared_requests, 8u * 8 * 4 * (4 + 2));
}

// activation(x w^T + b) (x up^T + b_up), also where features end within a piece.
TEST_F(GemmMmaTest, Gates) {
  for (const auto& [rows, k, features] : {std::tuple{3, 64, 16}, {33, 320, 80}, {2, 64, 104}}) {
    const Product p(rows, k, features, true, 5);
    Product up(rows, k, features, true, 6);
    up.x = p.x;
    up.Multiply();
    const auto y = Run<GemmNarrow<true>>(p, 0, rows, program::Activation::kSilu, &up);
    EXPECT_EQ((Run<GemmMmaMiddle<true>>(p, 0, rows, program::Activation::kSilu, &up)), y);
    EXPECT_EQ((Run<GemmMmaLarge<true>>(p, 0, rows, program::Activation::kSilu, &up)), y);
    EXPECT_EQ((Run<GemmWgmma<true>>(p, 0, rows, program::Activation::kSilu, &up)), y);
    for (size_t i = 0; i < y.size(); ++i) {
      const size_t feature = i % static_cast<size_t>(features);
      const double gate = p.exact[i] + p.bias[feature];
      const double want =
          gate / (1 + std::exp(-gate)) * (up.exact[i] + up.bias[feature]) + p.residual[i];
      ASSERT_NEAR(y[i], want, 1e-5 * (1 + std::abs(want))) << features << " " << i;
    }
  }
}

TEST_F(GemmMmaTest, WithoutRowsNothingIsWritten) {
  const Product p(1, 64, 16, true, 3);
  EXPECT_TRUE(Run<GemmNarrow<true>>(p, 0, 0).empty());
  EXPECT_TRUE(Run<GemmWgmma<true>>(p, 0, 0).empty());
}

// Several tiles a block, the last ones cut, by as many blocks as there are tiles and by fewer; more
// slices than stages.
TEST_F(GemmMmaTest, BlocksTakeTileAfterTile) {
  const Product p(150, 448, 208, true, 8);
  const auto want = Run<GemmMmaLarge<true>>(p, 0, p.rows, program::Activation::kGelu);
  for (blocks_ = 1; blocks_ <= 5; ++blocks_) {
    EXPECT_EQ(Run<GemmWgmma<true>>(p, 0, p.rows, program::Activation::kGelu), want) << blocks_;
  }
}

TEST_F(GemmMmaTest, NoOrderChangesTheOneOfFourWarps) {
  const Product p(80, 384, 32, false, 3);
  ExpectInAnyOrder<GemmWgmma<false>>(p, Run<GemmMmaMiddle<false>>(p, 0, p.rows));
}

TEST_F(GemmMmaTest, Activations) {
  const Product p(3, 64, 16, true, 4);
  with_bias_ = false;
  const auto tanh = Run<GemmNarrow<true>>(p, 0, 3, program::Activation::kTanh);
  const auto relu = Run<GemmNarrow<true>>(p, 0, 3, program::Activation::kRelu);
  for (size_t i = 0; i < tanh.size(); ++i) {
    EXPECT_NEAR(tanh[i], std::tanh(p.exact[i]), 2e-6);
    EXPECT_NEAR(relu[i], std::max(0.0, p.exact[i]), 2e-6);
  }
}

}  // namespace
}  // namespace penstock::cuda
