#include "dialects/shared/quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace penstock::dialects {
namespace {

std::vector<int> Quantized(const std::vector<float>& row, EmbeddingType type, float range = 1,
                           int64_t* saturated = nullptr) {
  std::vector<uint8_t> bytes;
  int64_t count = 0;
  Quantize(row, {type, false, range}, &bytes, &count);
  if (saturated != nullptr) *saturated = count;
  std::vector<int> numbers;
  const bool is_signed = type == EmbeddingType::kInt8 || type == EmbeddingType::kBinary;
  for (const uint8_t byte : bytes) {
    numbers.push_back(is_signed ? static_cast<int8_t>(byte) : byte);
  }
  return numbers;
}

// Values of numpy for the formulas in the header, in float32.
TEST(Quantize, EqualsSentenceTransformers) {
  const std::vector<float> row = {-1, -0.5f, -0.004f, 0, 0.004f, 0.25f, 0.999f, 1};
  EXPECT_EQ(Quantized(row, EmbeddingType::kUint8),
            (std::vector<int>{0, 63, 126, 127, 128, 159, 254, 254}));
  EXPECT_EQ(Quantized(row, EmbeddingType::kInt8),
            (std::vector<int>{-128, -64, -1, 0, 0, 31, 126, 126}));
  EXPECT_EQ(Quantized({0.1f, -0.1f, 0.05f}, EmbeddingType::kUint8, 0.1f),
            (std::vector<int>{255, 0, 191}));
}

TEST(Quantize, PacksBitsFromTheHighest) {
  const std::vector<float> row = {1, -1, 0, 2, -0.0f, 1e-30f, -5, 1, 3, -3};
  EXPECT_EQ(Quantized(row, EmbeddingType::kUbinary), (std::vector<int>{0b10010101, 0b10000000}));
  EXPECT_EQ(Quantized(row, EmbeddingType::kBinary), (std::vector<int>{0b10010101 - 128, 0}));
}

TEST(Quantize, CountsWhatIsOutside) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  int64_t saturated = 0;
  EXPECT_EQ(Quantized({2, -2, kInf, -kInf, 0.5f}, EmbeddingType::kInt8, 1, &saturated),
            (std::vector<int>{126, -128, 126, -128, 63}));
  EXPECT_EQ(saturated, 4);
  EXPECT_EQ(Quantized({std::nanf("")}, EmbeddingType::kInt8, 1, &saturated), std::vector<int>{0});
  EXPECT_EQ(saturated, 1);
  EXPECT_EQ(Quantized({2, -2, 0.5f}, EmbeddingType::kInt8, 2, &saturated),
            (std::vector<int>{126, -128, 31}));
  EXPECT_EQ(saturated, 0);
}

std::string Written(const EmbeddingFormat& format, const std::vector<float>& row) {
  std::string out;
  JsonWriter json(&out);
  EmbeddingWriter writer(format);
  json.BeginObject().Key("e");
  writer.Write(row, &json, &out);
  writer.WriteRange(&json);
  json.EndObject();
  return out;
}

TEST(Quantize, WritesEveryForm) {
  const std::vector<float> row = {1, -1, 3};
  EXPECT_EQ(Written({}, row), R"({"e":[1.0,-1.0,3.0]})");
  EXPECT_EQ(Written({EmbeddingType::kFloat, true}, row), R"({"e":"AACAPwAAgL8AAEBA"})");
  EXPECT_EQ(Written({EmbeddingType::kInt8}, row),
            R"({"e":[126,-128,126],"quantization":{"type":"int8","min":-1.0,"max":1.0,)"
            R"("saturated":1}})");
  EXPECT_EQ(Written({EmbeddingType::kInt8, true, 3}, row),
            R"({"e":"KtV/","quantization":{"type":"int8","min":-3.0,"max":3.0,"saturated":0}})");
  EXPECT_EQ(Written({EmbeddingType::kUbinary}, row), R"({"e":[160]})");
  EXPECT_EQ(Written({EmbeddingType::kBinary, true}, row), R"({"e":"IA=="})");
}

TEST(Quantize, KnowsItsNames) {
  EmbeddingType type = EmbeddingType::kFloat;
  for (const char* const name : {"float", "int8", "uint8", "binary", "ubinary"}) {
    ASSERT_TRUE(ParseEmbeddingType(name, &type));
    EXPECT_STREQ(EmbeddingTypeName(type), name);
  }
  EXPECT_FALSE(ParseEmbeddingType("float16", &type));
  for (const auto& [text, ok] :
       {std::pair(R"({"quantize_range":0.5})", true), std::pair("{}", true),
        std::pair(R"({"quantize_range":0})", false), std::pair(R"({"quantize_range":-1})", false),
        std::pair(R"({"quantize_range":"a"})", false)}) {
    const auto document = JsonDocument::Parse(text);
    ASSERT_TRUE(document.ok());
    float range = 0;
    EXPECT_EQ(ParseQuantizeRange(*document->Object(), &range).ok(), ok) << text;
  }
}

}  // namespace
}  // namespace penstock::dialects
