#include "models/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "cpu/cpu_backend.h"
#include "models/encoder.h"

namespace penstock::models {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::FloatEq;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A matrix of one part with as many columns as there are maxima.
std::vector<float> Factors(const std::vector<float>& maxima, const std::vector<float>& weight) {
  const program::LinearRows part = {program::ViewOf(weight, static_cast<int64_t>(maxima.size())),
                                    {}};
  return ColumnFactors(maxima, std::span(&part, 1));
}

TEST(ColumnFactors, ShareTheSizeBetweenBothSides) {
  // Roots of 16 / 1 and 1 / 16; their geometric mean is 1.
  const std::vector<float> weight = {1, 16, -1, -16};
  EXPECT_THAT(Factors(std::vector<float>{16, 1}, weight), ElementsAre(FloatEq(4), FloatEq(0.25f)));
  // All sizes alike: nothing to share, whatever the unit.
  EXPECT_THAT(Factors(std::vector<float>{1e-20f, 1e-20f}, std::vector<float>{1e20f, 1e20f}),
              Each(FloatEq(1)));
}

TEST(ColumnFactors, StayWithinBounds) {
  std::vector<float> maxima(64, 1);
  maxima[3] = 1e30f;
  maxima[4] = 1e-30f;
  const std::vector<float> factors = Factors(maxima, std::vector<float>(2 * 64, 1));
  EXPECT_EQ(factors[3], kColumnFactorMax);
  EXPECT_EQ(factors[4], kColumnFactorMin);
  EXPECT_THAT(factors[5], FloatEq(1));
}

// A column that is never active, has no weights or is not finite gets 1; it does not change the
// others.
TEST(ColumnFactors, GuardAgainstUselessColumns) {
  const std::vector<float> maxima = {16, 0, 3, kInfinity, kNan, 3, 3, 1};
  const std::vector<float> weight = {1, 2, 0, 2, 2, kInfinity, kNan, 16};
  EXPECT_THAT(Factors(maxima, weight), ElementsAre(FloatEq(4), 1, 1, 1, 1, 1, 1, FloatEq(0.25f)));
  EXPECT_THAT(Factors(std::vector<float>(3, 0), std::vector<float>(3, 1)), Each(1.0f));
}

// Also a model whose longest text is one token.
TEST(Calibration, TakesTheShortestModels) {
  auto folder = families::ModelFolder::Read(PENSTOCK_GOLDEN_DIR "/models/bert_mean_normalize");
  ASSERT_TRUE(folder.ok()) << folder.status().ToString();
  folder->max_tokens = 1;
  auto backend = cpu::NewCpuBackend({.threads = 1, .pin = false});
  ASSERT_TRUE(backend.ok());
  auto model = EncoderModel::Load(*folder, backend->get(), numbers::DType::kI8);
  EXPECT_TRUE(model.ok()) << model.status().ToString();
}

}  // namespace
}  // namespace penstock::models
