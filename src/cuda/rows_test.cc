#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "cuda/rows-inl.h"

namespace penstock::cuda {
namespace {

class RowsTest : public testing::Test {
 protected:
  std::vector<float> Draw(size_t count, float mean = 0) {
    std::normal_distribution<float> normal(mean, 1);
    std::vector<float> values(count);
    for (float& value : values) value = normal(random_);
    return values;
  }
  // One block more than there are rows: it leaves.
  template <typename Kernel, typename Args>
  static void Run(int rows, const Args& args) {
    const Status status = emulator::Launch(
        {(rows + Kernel::kTileRows - 1) / Kernel::kTileRows + 1, 1, Kernel::kThreads}, {},
        [&] { Kernel::Run(args); });
    ASSERT_TRUE(status.ok()) << status.message();
  }
  std::mt19937 random_{3};
};

TEST_F(RowsTest, Norms) {
  for (const int width : {1, 31, 384, 1000}) {
    for (const bool rms : {false, true}) {
      constexpr int kRows = 6;
      const auto x = Draw(static_cast<size_t>(kRows * width), 0.5F);
      const auto gamma = Draw(static_cast<size_t>(width)), beta = Draw(static_cast<size_t>(width));
      const int stride = (width + 63) / 64 * 64, rows = kRows;
      std::vector<float> y(x.size());
      std::vector<uint16_t> y16(static_cast<size_t>(kRows * stride), 0x7FFF);
      const NormArgs args = {.x = x.data(),
                             .gamma = gamma.data(),
                             .beta = rms ? nullptr : beta.data(),
                             .y = y.data(),
                             .y16 = y16.data(),
                             .rows = &rows,
                             .width = width,
                             .stride16 = stride,
                             .epsilon = 1e-5F,
                             .half = true,
                             .rms = rms};
      Run<RowsNorm>(kRows, args);
      for (int row = 0; row < kRows; ++row) {
        const float* const in = x.data() + row * width;
        double mean = 0, square = 0;
        for (int i = 0; i < width && !rms; ++i) mean += static_cast<double>(in[i]) / width;
        for (int i = 0; i < width; ++i) square += (in[i] - mean) * (in[i] - mean) / width;
        for (int i = 0; i < width; ++i) {
          const auto at = static_cast<size_t>(i);
          const double want = (in[i] - mean) / std::sqrt(square + 1e-5) * gamma[at] +
                              (rms ? 0.0 : static_cast<double>(beta[at]));
          const float got = y[static_cast<size_t>(row * width + i)];
          ASSERT_NEAR(got, want, 2e-6 * (1 + std::abs(want)) + (width == 1 && !rms ? 1e-3 : 0));
          ASSERT_EQ(y16[static_cast<size_t>(row * stride + i)], Operand16(got, true));
        }
        for (int i = width; i < stride; ++i)
          EXPECT_EQ(y16[static_cast<size_t>(row * stride + i)], 0);
      }
    }
  }
}

TEST_F(RowsTest, WithoutGammaRowsAreCopied) {
  const auto x = Draw(3 * 20);
  const int rows = 3;
  std::vector<float> y(x.size());
  Run<RowsNorm>(rows, NormArgs{.x = x.data(), .y = y.data(), .rows = &rows, .width = 20});
  EXPECT_EQ(y, x);
}

TEST_F(RowsTest, EmbedsAndNorms) {
  constexpr int kWidth = 48, kRows = 5;
  const auto words = Draw(20 * kWidth), places = Draw(8 * kWidth), kinds = Draw(2 * kWidth);
  const auto gamma = Draw(kWidth), beta = Draw(kWidth);
  const std::vector<int> ids = {3, 19, 0, 3, 7}, positions = {0, 1, 2, 0, 1},
                         types = {0, 1, 1, 0, 0};
  const int rows = kRows;
  std::vector<float> x(kRows * kWidth), y(x.size()), want(x.size());
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t i = 0; i < kWidth; ++i) {
      want[row * kWidth + i] = words[static_cast<size_t>(ids[row]) * kWidth + i] +
                               kinds[static_cast<size_t>(types[row]) * kWidth + i] +
                               places[static_cast<size_t>(positions[row]) * kWidth + i];
    }
  }
  NormArgs norm = {.x = x.data(),
                   .gamma = gamma.data(),
                   .beta = beta.data(),
                   .y = y.data(),
                   .rows = &rows,
                   .width = kWidth,
                   .epsilon = 1e-12F};
  Run<RowsEmbed>(kRows, EmbedArgs{.ids = ids.data(),
                                  .positions = positions.data(),
                                  .types = types.data(),
                                  .words = words.data(),
                                  .places = places.data(),
                                  .kinds = kinds.data(),
                                  .factor = 1,
                                  .norm = norm});
  EXPECT_EQ(x, want);
  std::vector<float> alone(x.size());
  norm.y = alone.data();
  Run<RowsNorm>(kRows, norm);
  EXPECT_EQ(y, alone);
}

// Pairs are turned by their position's angle; the rest and the values stay; zeros follow.
TEST_F(RowsTest, RotatesHeads) {
  constexpr int kHeads = 2, kHeadSize = 10, kDepth = 32, kRows = 4, kPairs = 3;
  const auto x = Draw(kRows * 3 * kHeads * kHeadSize);
  const std::vector<int> places = {0, 1, 2, 0};
  std::vector<float> cos, sin;
  for (int position = 0; position < 3; ++position) {
    for (int i = 0; i < kPairs; ++i) {
      cos.push_back(std::cos(0.3F * static_cast<float>(position * (i + 1))));
      sin.push_back(std::sin(0.3F * static_cast<float>(position * (i + 1))));
    }
  }
  const int rows = kRows;
  for (const bool interleaved : {false, true}) {
    std::vector<float> y(static_cast<size_t>(kRows * 3 * kHeads * kDepth), NAN);
    Run<RowsHeads>(kRows, HeadsArgs{.x = x.data(),
                                    .y = y.data(),
                                    .places = places.data(),
                                    .cos = cos.data(),
                                    .sin = sin.data(),
                                    .rows = &rows,
                                    .heads = kHeads,
                                    .head_size = kHeadSize,
                                    .depth = kDepth,
                                    .rope_size = 2 * kPairs,
                                    .interleaved = interleaved});
    for (int row = 0; row < kRows; ++row) {
      for (int head = 0; head < 3 * kHeads; ++head) {
        std::vector<float> want(x.begin() + (row * 3 * kHeads + head) * kHeadSize,
                                x.begin() + (row * 3 * kHeads + head + 1) * kHeadSize);
        for (int i = 0; i < kPairs && head < 2 * kHeads; ++i) {
          const auto a = static_cast<size_t>(interleaved ? 2 * i : i);
          const auto b = static_cast<size_t>(interleaved ? 2 * i + 1 : i + kPairs);
          const auto angle = static_cast<size_t>(places[static_cast<size_t>(row)] * kPairs + i);
          const float p = want[a], q = want[b];
          want[a] = p * cos[angle] - q * sin[angle];
          want[b] = q * cos[angle] + p * sin[angle];
        }
        want.resize(kDepth);
        const auto begin = y.begin() + (row * 3 * kHeads + head) * kDepth;
        for (int i = 0; i < kDepth; ++i) {
          EXPECT_NEAR(begin[i], want[static_cast<size_t>(i)], 1e-6)
              << row << " " << head << " " << i;
        }
      }
    }
  }
}

TEST_F(RowsTest, Pools) {
  using program::Pooling;
  constexpr int kWidth = 40, kStride = 60;
  const std::vector<int> offsets = {0, 3, 4, 9}, skip = {1, 0, 2};
  const int sequences = 3;
  const auto x = Draw(9 * kWidth);
  for (const Pooling pooling : {Pooling::kCls, Pooling::kMean, Pooling::kMax, Pooling::kLastToken,
                                Pooling::kMeanSqrtLen, Pooling::kWeightedMean}) {
    std::vector<float> y(3 * kStride, NAN);
    Run<RowsPool>(sequences, PoolArgs{.x = x.data(),
                                      .offsets = offsets.data(),
                                      .skip = skip.data(),
                                      .sequences = &sequences,
                                      .y = y.data() + 20,
                                      .width = kWidth,
                                      .y_stride = kStride,
                                      .pooling = pooling});
    for (size_t s = 0; s < 3; ++s) {
      const int begin = offsets[s] + skip[s], end = offsets[s + 1];
      EXPECT_TRUE(std::isnan(y[s * kStride]));
      for (size_t i = 0; i < kWidth; ++i) {
        double sum = 0, weighted = 0, weights = 0, most = -1e9;
        for (int row = begin; row < end; ++row) {
          const double value = x[static_cast<size_t>(row) * kWidth + i];
          sum += value;
          weighted += (row - offsets[s] + 1) * value;
          weights += row - offsets[s] + 1;
          most = std::max(most, value);
        }
        const double count = end - begin;
        double want = 0;
        switch (pooling) {
          case Pooling::kCls:
            want = x[static_cast<size_t>(begin) * kWidth + i];
            break;
          case Pooling::kLastToken:
            want = x[static_cast<size_t>(end - 1) * kWidth + i];
            break;
          case Pooling::kMean:
            want = sum / count;
            break;
          case Pooling::kMax:
            want = most;
            break;
          case Pooling::kMeanSqrtLen:
            want = sum / std::sqrt(count);
            break;
          case Pooling::kWeightedMean:
            want = weighted / weights;
            break;
        }
        EXPECT_NEAR(y[s * kStride + 20 + i], want, 1e-6);
      }
    }
  }
}

}  // namespace
}  // namespace penstock::cuda
