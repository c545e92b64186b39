#include "models/rotary.h"

#include <gtest/gtest.h>

#include <cmath>

namespace penstock::models {
namespace {

families::DecoderConfig Longrope(int32_t original) {
  families::DecoderConfig config;
  config.rope_size = 8;
  config.context = 4096;
  config.layers.resize(1, {.rope_theta = 1e4f});
  config.rope_scaling.kind = families::RopeScalingKind::kLongrope;
  config.rope_scaling.original_context = original;
  config.rope_scaling.attention_factor = 1.5f;
  config.rope_scaling.short_factors = {1, 1.25, 1.5, 2};
  config.rope_scaling.long_factors = {1, 4, 16, 32};
  return config;
}

TEST(Rotary, LongropeSwitchesWhereAContextIsLonger) {
  families::DecoderConfig config = Longrope(512);
  EXPECT_EQ(RopeSwitchOf(config, 512), 0);
  EXPECT_EQ(RopeSwitchOf(config, 513), 512);
  config.rope_scaling.long_factors = config.rope_scaling.short_factors;
  EXPECT_EQ(RopeSwitchOf(config, 513), 0);
  config.rope_scaling.kind = families::RopeScalingKind::kLinear;
  EXPECT_EQ(RopeSwitchOf(config, 513), 0);
}

TEST(Rotary, LongropeDividesByEitherFactors) {
  const families::DecoderConfig config = Longrope(512);
  for (const bool is_long : {false, true}) {
    const RotaryAngles angles = RotaryAnglesOf(config, config.layers[0], is_long);
    const auto& factors =
        is_long ? config.rope_scaling.long_factors : config.rope_scaling.short_factors;
    ASSERT_EQ(angles.frequencies.size(), 4u);
    EXPECT_EQ(angles.factor, 1.5);
    for (size_t i = 0; i < 4; ++i) {
      const double want = std::pow(1e4, -2.0 * static_cast<double>(i) / 8) / double{factors[i]};
      EXPECT_NEAR(angles.frequencies[i], want, 1e-15);
    }
  }
}

}  // namespace
}  // namespace penstock::models
