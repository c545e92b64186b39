#include "generate/context_bytes.h"

#include <gtest/gtest.h>

namespace penstock::generate {
namespace {

// 1 kB of keys and values a token and layer in bf16.
families::DecoderConfig Config(size_t layers, int32_t window, size_t windowed) {
  families::DecoderConfig config;
  config.kv_heads = 2;
  config.head_size = 128;
  config.layers.resize(layers);
  for (size_t i = 0; i < windowed; ++i) config.layers[i].window = window;
  return config;
}

TEST(ContextBytes, AllLayersKeepAllTokens) {
  const ContextBytes bytes(Config(4, 0, 0), numbers::DType::kBf16);
  EXPECT_EQ(bytes.Of(1000), 4096e3);
  EXPECT_EQ(bytes.Fit(4096e3, 2000), 1000);
  EXPECT_EQ(bytes.Fit(4096e3, 500), 500);
  EXPECT_EQ(bytes.Fit(-1, 500), 0);
  families::DecoderConfig rotated = Config(4, 0, 0);
  rotated.rope_size = 64;
  EXPECT_EQ(ContextBytes(rotated, numbers::DType::kF32).Of(1000), 2 * 4096e3 + 256e3);
  rotated.rope_scaling.kind = families::RopeScalingKind::kLongrope;
  EXPECT_EQ(ContextBytes(rotated, numbers::DType::kF32).Of(1000), 2 * 4096e3 + 512e3);
}

TEST(ContextBytes, LayersWithAWindowKeepItAndAStep) {
  const ContextBytes bytes(Config(6, 488, 5), numbers::DType::kBf16);  // 1000 tokens
  EXPECT_EQ(bytes.Of(1000), 6 * 1024e3);
  EXPECT_EQ(bytes.Of(32000), 32000 * 1024.0 + 5 * 1024e3);
  for (const int64_t tokens : {1, 999, 1000, 1001, 31999}) {
    EXPECT_EQ(bytes.Fit(bytes.Of(tokens), 32000), tokens);
    EXPECT_EQ(bytes.Fit(bytes.Of(tokens) - 1, 32000), tokens - 1);
  }
  EXPECT_EQ(bytes.Fit(bytes.Of(32000), 32000), 32000);
}

TEST(ContextBytes, WindowsInAllLayers) {
  const ContextBytes bytes(Config(2, 488, 2), numbers::DType::kBf16);
  EXPECT_EQ(bytes.Of(32000), 2 * 1024e3);
  EXPECT_EQ(bytes.Fit(2 * 1024e3, 32000), 32000);
  EXPECT_EQ(bytes.Fit(1024e3, 32000), 500);
}

// Of embedding models, which see a text as a whole.
TEST(ContextBytes, BothDirectionsKeepAll) {
  families::DecoderConfig config = Config(2, 488, 2);
  config.causal = false;
  EXPECT_EQ(ContextBytes(config, numbers::DType::kBf16).Of(32000), 32000 * 2048.0);
}

}  // namespace
}  // namespace penstock::generate
