// The kernels of an encoder one behind the other.
#include <gtest/gtest.h>

#include "cuda/encoder_layer_test_util.h"

namespace penstock::cuda {
namespace {

std::vector<float> Rows(int count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(count * EncoderLayer::kWidth));
  for (float& value : x) value = normal(random);
  return x;
}

double Cosine(std::span<const float> a, std::span<const double> b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += a[i] * b[i];
    aa += static_cast<double>(a[i]) * a[i];
    bb += b[i] * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

TEST(CudaEncoderLayer, IsNearTheExactOneAlone_AndTheSameAmongOthers) {
  const EncoderLayer layer(3);
  const std::vector<float> a = Rows(19, 1), b = Rows(13, 2);
  std::vector<float> both = a;
  both.insert(both.end(), b.begin(), b.end());
  const int lengths[] = {19, 13};
  ASSERT_TRUE(layer.Run(&both, lengths, {}).ok());
  size_t begin = 0;
  for (const auto& x : {a, b}) {
    std::vector<float> alone = x;
    const int length[] = {static_cast<int>(x.size()) / EncoderLayer::kWidth};
    emulator::LaunchOptions options;
    options.order = emulator::WakeOrder::kWarps;
    options.seed = 5;
    const Status status = layer.Run(&alone, length, options);
    ASSERT_TRUE(status.ok()) << status.message();
    const std::span part = std::span(both).subspan(begin, x.size());
    EXPECT_TRUE(std::equal(part.begin(), part.end(), alone.begin()));
    begin += x.size();
    const std::vector<double> exact = layer.Exact(x);
    for (size_t row = 0; row < exact.size(); row += EncoderLayer::kWidth) {
      EXPECT_GT(Cosine(std::span(alone).subspan(row, EncoderLayer::kWidth),
                       std::span(exact).subspan(row, EncoderLayer::kWidth)),
                0.99999);
    }
  }
}

}  // namespace
}  // namespace penstock::cuda
