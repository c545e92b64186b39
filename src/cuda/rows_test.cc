#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "cuda/rows-inl.h"

namespace penstock::cuda {
namespace {

class RowsTest : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "not under the thread sanitizer";
#endif
  }
  std::vector<float> Draw(size_t count, float mean = 0) {
    std::normal_distribution<float> normal(mean, 1);
    std::vector<float> values(count);
    for (float& value : values) value = normal(random_);
    return values;
  }
  static void Run(int rows, const std::function<void()>& kernel) {
    const Status status = emulator::Launch(
        {(rows + kRowsABlock - 1) / kRowsABlock + 1, 1, 32 * kRowsABlock}, {}, kernel);
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
      std::vector<uint16_t> y16(static_cast<size_t>(kRows * stride));
      const NormArgs args = {x.data(), gamma.data(), rms ? nullptr : beta.data(),
                             y.data(), y16.data(),   &rows,
                             width,    stride,       1e-5F,
                             true};
      Run(kRows, [&] { RunNorm(args); });
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
      }
    }
  }
}

TEST_F(RowsTest, EmbedsAndNorms) {
  constexpr int kWidth = 48, kRows = 5;
  const auto words = Draw(20 * kWidth), places = Draw(8 * kWidth), type = Draw(kWidth);
  const auto gamma = Draw(kWidth), beta = Draw(kWidth);
  const std::vector<int> ids = {3, 19, 0, 3, 7}, positions = {0, 1, 2, 0, 1};
  const int rows = kRows;
  std::vector<float> x(kRows * kWidth), y(x.size()), want(x.size());
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t i = 0; i < kWidth; ++i) {
      want[row * kWidth + i] = words[static_cast<size_t>(ids[row]) * kWidth + i] +
                               places[static_cast<size_t>(positions[row]) * kWidth + i] + type[i];
    }
  }
  NormArgs norm = {x.data(), gamma.data(), beta.data(), y.data(), nullptr,
                   &rows,    kWidth,       kWidth,      1e-12F,   false};
  const EmbedArgs args = {ids.data(),  positions.data(), words.data(), places.data(),
                          type.data(), x.data(),         norm};
  Run(kRows, [&] { RunEmbed(args); });
  EXPECT_EQ(x, want);
  std::vector<float> alone(x.size());
  norm.y = alone.data();
  Run(kRows, [&] { RunNorm(norm); });
  EXPECT_EQ(y, alone);
}

TEST_F(RowsTest, Pools) {
  constexpr int kWidth = 40;
  const std::vector<int> offsets = {0, 3, 4, 9};
  const int sequences = 3;
  const auto x = Draw(9 * kWidth);
  for (const bool first : {true, false}) {
    for (const bool normalizes : {true, false}) {
      std::vector<float> y(3 * kWidth);
      const PoolArgs args = {x.data(), offsets.data(), &sequences, y.data(),
                             kWidth,   first,          normalizes};
      Run(sequences, [&] { RunPool(args); });
      for (size_t s = 0; s < 3; ++s) {
        std::vector<double> want(kWidth);
        double square = 0;
        const int end = first ? offsets[s] + 1 : offsets[s + 1];
        for (size_t i = 0; i < kWidth; ++i) {
          for (int row = offsets[s]; row < end; ++row) {
            want[i] +=
                static_cast<double>(x[static_cast<size_t>(row) * kWidth + i]) / (end - offsets[s]);
          }
          square += want[i] * want[i];
        }
        for (size_t i = 0; i < kWidth; ++i) {
          EXPECT_NEAR(y[s * kWidth + i], want[i] / (normalizes ? std::sqrt(square) : 1), 1e-6);
        }
      }
    }
  }
}

}  // namespace
}  // namespace penstock::cuda
