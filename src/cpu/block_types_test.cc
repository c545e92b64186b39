// Blocks against what the Python package `gguf` 0.19 makes of the same bytes.
#include "cpu/block_types.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "cpu/random_blocks.h"

namespace penstock::cpu {
namespace {

uint64_t Fnv1a(const std::vector<float>& values) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const float v : values) {
    uint8_t bytes[sizeof(v)];
    std::memcpy(bytes, &v, sizeof(v));
    for (const uint8_t b : bytes) hash = (hash ^ b) * 0x100000001b3;
  }
  return hash;
}

TEST(BlockTypes, DequantizedAsByTheGgufPackage) {
  // gguf.quants.dequantize of RandomBlocks(type, 64 blocks, 7), zeros made positive, as f32.
  const std::pair<BlockType, uint64_t> wants[] = {
      {BlockType::kQ8_0, 0xf3bb0b1083da7963}, {BlockType::kQ4_0, 0xdb46cb257289ca40},
      {BlockType::kQ4_1, 0x8c765a997b28a344}, {BlockType::kQ5_0, 0x84a4e0d71f161aa6},
      {BlockType::kQ5_1, 0xfa1fdb76689e324},  {BlockType::kQ4K, 0x28a2214fecf20e1a},
      {BlockType::kQ5K, 0xf2e8474334ab5a91},  {BlockType::kQ6K, 0x949cc49ed7170f75}};
  for (const auto& [type, want] : wants) {
    const BlockFormat format = FormatOf(type);
    const std::vector<std::byte> blocks = RandomBlocks(type, 64, 7);
    ASSERT_EQ(blocks.size(), 64 * format.bytes);
    std::vector<float> values(64 * format.elements);
    DequantizeRow(type, blocks.data(), values.size(), values.data());
    for (float& v : values) v += 0.0f;
    EXPECT_EQ(Fnv1a(values), want) << format.name << " " << values[0] << " " << values.back();
  }
}

TEST(BlockTypes, FloatsAreConverted) {
  const uint16_t halves[] = {0x3c00, 0xc000, 0x0001, 0x7bff};
  float values[4];
  DequantizeRow(BlockType::kF16, reinterpret_cast<const std::byte*>(halves), 4, values);
  EXPECT_EQ(values[0], 1.0f);
  EXPECT_EQ(values[1], -2.0f);
  EXPECT_EQ(values[2], 0x1p-24f);
  EXPECT_EQ(values[3], 65504.0f);
  DequantizeRow(BlockType::kBf16, reinterpret_cast<const std::byte*>(halves), 2, values);
  EXPECT_EQ(values[0], 0.0078125f);
  const float plain[] = {1.5f, -3.25f};
  DequantizeRow(BlockType::kF32, reinterpret_cast<const std::byte*>(plain), 2, values);
  EXPECT_EQ(values[1], -3.25f);
}

}  // namespace
}  // namespace penstock::cpu
