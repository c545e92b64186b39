// Blocks against what the Python package `gguf` 0.19 makes of the same bytes.
#include "numbers/block_fields.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "numbers/random_blocks.h"

namespace penstock::numbers {
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

TEST(BlockFields, StandForTheValuesOfTheGgufPackage) {
  // gguf.quants.dequantize of RandomBlocks(type, 64 blocks, 7), zeros made positive, as f32.
  const std::pair<DType, uint64_t> wants[] = {
      {DType::kQ8_0, 0xf3bb0b1083da7963}, {DType::kQ4_0, 0xdb46cb257289ca40},
      {DType::kQ4_1, 0x8c765a997b28a344}, {DType::kQ5_0, 0x84a4e0d71f161aa6},
      {DType::kQ5_1, 0xfa1fdb76689e324},  {DType::kQ4K, 0x28a2214fecf20e1a},
      {DType::kQ5K, 0xf2e8474334ab5a91},  {DType::kQ6K, 0x949cc49ed7170f75}};
  for (const auto& [type, want] : wants) {
    const BlockFormat format = FormatOf(type);
    const std::vector<std::byte> blocks = RandomBlocks(type, 64, 7);
    std::vector<float> from_fields(64 * format.elements);
    for (size_t b = 0; b < 64; ++b) {
      BlockFields fields;
      ReadBlock(type, blocks.data() + b * format.bytes, &fields);
      FieldsToF32(type, fields, from_fields.data() + b * format.elements);
    }
    std::vector<float> values(64 * format.elements);
    ConvertToF32(type, blocks.data(), values.size(), values.data());
    EXPECT_EQ(Fnv1a(from_fields), Fnv1a(values)) << DTypeName(type);
    for (float& v : values) v += 0.0f;
    EXPECT_EQ(Fnv1a(values), want) << DTypeName(type) << " " << values[0] << " " << values.back();
  }
}

}  // namespace
}  // namespace penstock::numbers
