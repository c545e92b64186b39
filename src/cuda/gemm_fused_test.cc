// Kernels that make their operands themselves: the bits of a norm and a narrow product.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "cuda/block_weights.h"
#include "cuda/gemm_narrow-inl.h"
#include "cuda/rows-inl.h"
#include "numbers/random_blocks.h"

namespace penstock::cuda {
namespace {

using emulator::WakeOrder;

constexpr int kFeatures = 40;

std::vector<float> Normal(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// Weights of one matrix, and what its rows were divided by.
struct Matrix {
  std::vector<std::byte> bytes;
  std::vector<float> scales;
  const uint16_t* data() const { return reinterpret_cast<const uint16_t*>(bytes.data()); }
};
Matrix Pieces(int k, uint32_t seed) {
  Matrix matrix{std::vector<std::byte>(static_cast<size_t>(48 * k) * 2), Normal(kFeatures, seed)};
  auto* const to = reinterpret_cast<uint16_t*>(matrix.bytes.data());
  const std::vector<float> values = Normal(static_cast<size_t>(48 * k), seed + 1);
  for (size_t i = 0; i < values.size(); ++i) {
    to[i] = static_cast<uint16_t>(simt::PackHalf(values[i], 0));
  }
  return matrix;
}
Matrix Blocks(numbers::DType stored, int k, uint32_t seed) {
  const std::vector<std::byte> bytes = numbers::RandomWeights(stored, kFeatures, k, seed);
  const program::TensorView view = {stored, kFeatures, k, bytes.data()};
  const BlockForm form = BlockFormOf(stored);
  Matrix matrix{std::vector<std::byte>(BlockBytes(form, kFeatures, k)),
                std::vector<float>(kFeatures)};
  for (int64_t row = 0; row < kFeatures; row += 16) {
    WriteBlocks(view, row, std::min<int64_t>(16, kFeatures - row),
                matrix.bytes.data() + static_cast<uint64_t>(row / 16) * BlockRowBytes(form, k),
                matrix.scales.data() + row);
  }
  return matrix;
}

class GemmFusedTest : public testing::Test {
 protected:
  // Three matrices, one of them a gate's other half or all of the same x.
  template <typename Fused, typename Narrow>
  void ExpectSame(const Matrix (&w)[3], int width, int rows, bool gated, bool rms) {
    const int k = (width + 63) / 64 * 64;
    const std::vector<float> x = Normal(static_cast<size_t>(rows * width), 1);
    const std::vector<float> gamma = Normal(static_cast<size_t>(width), 2);
    GemmNarrowArgs args = {};
    args.norm.x = x.data();
    args.norm.gamma = gamma.data();
    args.norm.rows = args.gemm.rows = &rows;
    args.norm.width = width;
    args.norm.stride16 = args.gemm.stride = args.gemm.k = k;
    args.norm.epsilon = 1e-5F;
    args.norm.half = true;
    args.norm.rms = rms;
    args.gemm.w = w[0].data();
    args.gemm.to.scales = w[0].scales.data();
    args.gemm.to.features = kFeatures;
    int blocks = 3;
    if (gated) {
      args.gemm.up = w[1].data();
      args.gemm.to.scales_up = w[1].scales.data();
      args.gemm.to.activation = program::Activation::kSilu;
      blocks = 5;
    }
    const auto run = [&](auto kernel, std::vector<float>* y, bool early) {
      using Kernel = decltype(kernel);
      GemmNarrowArgs one = args;
      one.early_weights = early;
      y->assign(static_cast<size_t>(3 * rows * kFeatures), NAN);
      one.gemm.to.y = y->data();
      int grid = blocks;
      for (int i = 0; i < 2 && !gated; ++i) {
        const Matrix& more = w[i + 1];
        one.more[i] = {more.data(), more.scales.data(),
                       nullptr,     y->data() + (i + 1) * rows * kFeatures,
                       kFeatures,   grid};
        grid += 3;
      }
      const Status status = Launch(
          {grid, 1, Kernel::kThreads, Kernel::kSharedBytes}, options_, [&] { Kernel::Run(one); },
          &counters_);
      EXPECT_TRUE(status.ok()) << status.message();
    };
    std::vector<float> fused, late, want;
    run(Fused{}, &fused, true);
    run(Fused{}, &late, false);
    // The operands by the kernel over rows.
    std::vector<uint16_t> operands(static_cast<size_t>(rows * k), 0x7FFF);
    std::vector<float> row_scales(static_cast<size_t>(rows), NAN);
    NormArgs norm = args.norm;
    norm.y16 = operands.data();
    norm.scales = row_scales.data();
    ASSERT_TRUE(Launch({1, 1, RowsNorm::kThreads}, options_, [&] { RowsNorm::Run(norm); }).ok());
    args.gemm.x = operands.data();
    args.gemm.to.row_scales = row_scales.data();
    run(Narrow{}, &want, true);
    EXPECT_EQ(std::memcmp(fused.data(), want.data(), want.size() * sizeof(float)), 0)
        << width << " " << rows << " " << gated;
    EXPECT_EQ(std::memcmp(late.data(), want.data(), want.size() * sizeof(float)), 0);
    const size_t written = static_cast<size_t>(gated ? rows : 3 * rows) * kFeatures;
    for (size_t i = 0; i < written; ++i) ASSERT_TRUE(std::isfinite(fused[i])) << i;
  }

  emulator::LaunchOptions options_;
  emulator::Counters counters_;
};

// Rows that all warps share and a warp each; more columns than are held; chunks that are cut.
TEST_F(GemmFusedTest, IsANormAndAProduct) {
  using Fused = GemmFused<PieceWeights<true>>;
  using Narrow = GemmNarrow<true>;
  for (const auto& [width, rows] : {std::pair{60, 1}, {320, 2}, {1088, 4}, {2500, 1}, {4096, 3}}) {
    const int k = (width + 63) / 64 * 64;
    const Matrix w[3] = {Pieces(k, 3), Pieces(k, 5), Pieces(k, 7)};
    ExpectSame<Fused, Narrow>(w, width, rows, false, rows % 2 == 0);
    ExpectSame<Fused, Narrow>(w, width, rows, true, rows % 2 == 1);
  }
}

TEST_F(GemmFusedTest, TakesBlocksOfEachForm) {
  for (const numbers::DType stored :
       {numbers::DType::kQ4K, numbers::DType::kQ8_0, numbers::DType::kQ6K, numbers::DType::kQ5K}) {
    for (const int rows : {1, 3}) {
      const Matrix w[3] = {Blocks(stored, 1280, 3), Blocks(stored, 1280, 5),
                           Blocks(stored, 1280, 7)};
      VisitForm(BlockFormOf(stored), [&]<typename Form>() {
        using Fused = GemmFused<BlockWeights<Form>>;
        ExpectSame<Fused, GemmNarrowBlocks<Form>>(w, 1280, rows, false, true);
        ExpectSame<Fused, GemmNarrowBlocks<Form>>(w, 1280, rows, true, true);
      });
    }
  }
}

TEST_F(GemmFusedTest, NoOrderChangesIt) {
  const Matrix w[3] = {Pieces(1344, 3), Pieces(1344, 5), Pieces(1344, 7)};
  for (const WakeOrder order :
       {WakeOrder::kFirst, WakeOrder::kLast, WakeOrder::kRandom, WakeOrder::kWarps}) {
    options_.order = order;
    options_.late_copies = order != WakeOrder::kFirst;
    ExpectSame<GemmFused<PieceWeights<true>>, GemmNarrow<true>>(w, 1344, 1, false, true);
    ExpectSame<GemmFused<PieceWeights<true>>, GemmNarrow<true>>(w, 1344, 4, true, true);
  }
}

TEST_F(GemmFusedTest, NoBanksConflict) {
  const Matrix w[3] = {Pieces(1024, 3), Pieces(1024, 5), Pieces(1024, 7)};
  ExpectSame<GemmFused<PieceWeights<true>>, GemmNarrow<true>>(w, 1024, 4, true, true);
  EXPECT_EQ(counters_.shared_waves, counters_.shared_requests);
}

}  // namespace
}  // namespace penstock::cuda
