#include "dialects/kserve/tensor_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "json/json.h"

namespace penstock::dialects {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Shape = std::vector<int64_t>;

Expected<TensorBytes> Read(signature::ElementType type, const Shape& shape, const std::string& json,
                           RequestMemory* memory = nullptr) {
  const auto document = JsonDocument::Parse(json);
  EXPECT_TRUE(document.ok()) << json;
  return ReadTensorJson(document->root(), type, shape, json.size(), memory);
}

template <typename T>
std::vector<T> Numbers(const Expected<TensorBytes>& made) {
  EXPECT_TRUE(made.ok()) << made.status().ToString();
  if (!made.ok()) return {};
  std::vector<T> numbers(made->size / sizeof(T));
  if (made->size > 0) std::memcpy(numbers.data(), made->data.get(), made->size);
  return numbers;
}

template <typename T>
std::string Print(signature::ElementType type, const std::vector<T>& numbers) {
  std::string out = "x";
  const auto bytes = std::as_bytes(std::span(numbers));
  AppendTensorJson(type, bytes, &out);
  EXPECT_LE(out.size() - 1, TensorJsonBytesMax(type, bytes));
  return out.substr(1);
}

TEST(TensorJson, ElementsAreFlatOrNestedAsTheShapeIs) {
  for (const char* json : {"[1,2,3,4,5,6]", "[[1,2,3],[4,5,6]]"}) {
    EXPECT_THAT(Numbers<int32_t>(Read(signature::ElementType::kInt32, {2, 3}, json)),
                ElementsAre(1, 2, 3, 4, 5, 6));
  }
  EXPECT_THAT(Numbers<int32_t>(Read(signature::ElementType::kInt32, {1, 2, 1}, "[[[7],[8]]]")),
              ElementsAre(7, 8));
  EXPECT_THAT(Numbers<int32_t>(Read(signature::ElementType::kInt32, {}, "[7]")), ElementsAre(7));
  for (const char* json : {"[]", "[[],[]]"}) {
    EXPECT_THAT(Numbers<int32_t>(Read(signature::ElementType::kInt32, {2, 0}, json)),
                ElementsAre());
  }
}

TEST(TensorJson, AnotherShapeIsRefused) {
  for (const char* json :
       {"[]", "[1,2,3,4,5]", "[1,2,3,4,5,6,7]", "[[1,2,3],[4,5]]", "[[1,2,3],[4,5,6],[7,8,9]]",
        "[[1,2],[3,4],[5,6]]", "[[1,2,3],4,5,6]", "[1,2,3,[4,5,6]]", "[[[1,2,3],[4,5,6]]]",
        "[[1,2,3]]", "[[1,2,3],[[4],5,6]]", "[[1,2,3],[4,5,6,7]]"}) {
    const auto made = Read(signature::ElementType::kFp32, {2, 3}, json);
    EXPECT_EQ(made.code(), StatusCode::kInvalidArgument) << json;
    EXPECT_THAT(made.status().message(), HasSubstr("[2,3]")) << json;
  }
  for (const char* json : {"1", "{}", "\"a\"", "null"}) {
    EXPECT_THAT(Read(signature::ElementType::kFp32, {1}, json).status().message(),
                HasSubstr("an array"));
  }
}

TEST(TensorJson, ShapesThatOverflowTakeNoMemory) {
  for (const Shape& shape : {Shape{1'000'000'000, 1'000'000'000},
                             Shape{int64_t{1} << 62, int64_t{1} << 62}, Shape{int64_t{1} << 40}}) {
    EXPECT_EQ(Read(signature::ElementType::kFp64, shape, "[1]").code(),
              StatusCode::kInvalidArgument);
    EXPECT_EQ(Read(signature::ElementType::kBytes, shape, "[\"a\"]").code(),
              StatusCode::kInvalidArgument);
  }
}

TEST(TensorJson, NumbersMustBeOfTheType) {
  EXPECT_THAT(Numbers<int8_t>(Read(signature::ElementType::kInt8, {2}, "[-128,127]")),
              ElementsAre(-128, 127));
  EXPECT_THAT(Numbers<uint8_t>(Read(signature::ElementType::kUint8, {2}, "[0,255]")),
              ElementsAre(0, 255));
  EXPECT_THAT(
      Numbers<uint64_t>(Read(signature::ElementType::kUint64, {1}, "[18446744073709551615]")),
      ElementsAre(std::numeric_limits<uint64_t>::max()));
  EXPECT_THAT(Numbers<int64_t>(Read(signature::ElementType::kInt64, {1}, "[-9223372036854775808]")),
              ElementsAre(std::numeric_limits<int64_t>::min()));
  EXPECT_THAT(Numbers<uint8_t>(Read(signature::ElementType::kBool, {2}, "[true,false]")),
              ElementsAre(1, 0));
  EXPECT_THAT(
      Numbers<float>(Read(signature::ElementType::kFp32, {3}, "[1,-0.5,3.4028234663852886e38]")),
      ElementsAre(1, -0.5f, std::numeric_limits<float>::max()));
  EXPECT_THAT(Numbers<double>(Read(signature::ElementType::kFp64, {1}, "[1e300]")),
              ElementsAre(1e300));
  const std::vector<std::pair<signature::ElementType, const char*>> wrong = {
      {signature::ElementType::kInt8, "[128]"},
      {signature::ElementType::kInt8, "[-129]"},
      {signature::ElementType::kUint8, "[-1]"},
      {signature::ElementType::kUint8, "[256]"},
      {signature::ElementType::kUint16, "[65536]"},
      {signature::ElementType::kInt32, "[2147483648]"},
      {signature::ElementType::kInt64, "[9223372036854775808]"},
      {signature::ElementType::kUint64, "[-1]"},
      {signature::ElementType::kInt32, "[1.0]"},
      {signature::ElementType::kInt32, "[\"1\"]"},
      {signature::ElementType::kInt32, "[true]"},
      {signature::ElementType::kInt32, "[null]"},
      {signature::ElementType::kFp32, "[1e39]"},
      {signature::ElementType::kFp32, "[\"1\"]"},
      {signature::ElementType::kFp32, "[null]"},
      {signature::ElementType::kBool, "[1]"},
      {signature::ElementType::kBytes, "[1]"},
      {signature::ElementType::kFp32, "[{}]"}};
  for (const auto& [type, json] : wrong) {
    const auto made = Read(type, {1}, json);
    EXPECT_EQ(made.code(), StatusCode::kInvalidArgument)
        << signature::ElementTypeName(type) << json;
    EXPECT_THAT(made.status().message(), HasSubstr("element 0")) << json;
  }
  EXPECT_THAT(Read(signature::ElementType::kInt8, {2}, "[1,200]").status().message(),
              HasSubstr("from -128 to 127; element 1"));
}

TEST(TensorJson, StringsGetTheirLengths) {
  const auto made = Read(signature::ElementType::kBytes, {2, 2}, R"([["a",""],["\u00e9","xyz"]])");
  ASSERT_TRUE(made.ok());
  const std::string_view bytes(reinterpret_cast<const char*>(made->data.get()), made->size);
  const std::string wanted("\1\0\0\0a\0\0\0\0\2\0\0\0\xc3\xa9\3\0\0\0xyz", 22);
  EXPECT_EQ(bytes, wanted);
  std::string out;
  AppendTensorJson(signature::ElementType::kBytes, made->span(), &out);
  EXPECT_EQ(out, "[\"a\",\"\",\"\xc3\xa9\",\"xyz\"]");
}

TEST(TensorJson, HalvesAreBinaryOnly) {
  for (const signature::ElementType type :
       {signature::ElementType::kFp16, signature::ElementType::kBf16}) {
    EXPECT_THAT(Read(type, {1}, "[1]").status().message(), HasSubstr("binary data"));
    EXPECT_EQ(CheckPrintable(type, {}).code(), StatusCode::kUnsupported);
  }
}

TEST(TensorJson, StringsThatAreNotUtf8AreBinaryOnly) {
  const auto check = [](std::string_view bytes) {
    return CheckPrintable(signature::ElementType::kBytes, std::as_bytes(std::span(bytes))).code();
  };
  EXPECT_EQ(check({"\1\0\0\0a", 5}), StatusCode::kOk);
  EXPECT_EQ(check({"\1\0\0\0\xff", 5}), StatusCode::kUnprocessable);
  EXPECT_EQ(check({"\2\0\0\0a", 5}), StatusCode::kUnprocessable);
  EXPECT_EQ(check({"\2\0", 2}), StatusCode::kUnprocessable);
}

TEST(TensorJson, MemoryIsAdmittedFirst) {
  const auto budget = std::make_shared<ByteBudget>(100);
  RequestMemory memory(budget, Priority::kInteractive);
  EXPECT_TRUE(Read(signature::ElementType::kFp64, {3}, "[1,2,3]", &memory).ok());
  EXPECT_EQ(memory.held(), 24);
  EXPECT_EQ(
      Read(signature::ElementType::kFp64, {12}, "[1,2,3,4,5,6,7,8,9,10,11,12]", &memory).code(),
      StatusCode::kPayloadTooLarge);
}

TEST(TensorJson, NumbersReadBackAsTheyWere) {
  EXPECT_EQ(Print<float>(signature::ElementType::kFp32, {0.1f, 1, -0.0f, 1e-45f, 16777216}),
            "[0.1,1.0,-0.0,1e-45,16777216.0]");
  EXPECT_EQ(Print<uint8_t>(signature::ElementType::kBool, {0, 1, 2}), "[false,true,true]");
  EXPECT_EQ(Print<int8_t>(signature::ElementType::kInt8, {-128, 127}), "[-128,127]");
  EXPECT_EQ(
      Print<uint64_t>(signature::ElementType::kUint64, {std::numeric_limits<uint64_t>::max()}),
      "[18446744073709551615]");
  EXPECT_EQ(Print<int64_t>(signature::ElementType::kInt64, {std::numeric_limits<int64_t>::min()}),
            "[-9223372036854775808]");
  EXPECT_EQ(Print<double>(signature::ElementType::kFp64, {}), "[]");
}

TEST(TensorJson, NumbersThatAreNoneArePrintedAsTritonDoes) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(Print<double>(signature::ElementType::kFp64, {std::nan(""), infinity, -infinity}),
            "[NaN,Infinity,-Infinity]");
}

// The longest texts stay within the bound by which memory is taken.
template <typename Float, typename Bits>
void CheckFloats(signature::ElementType type) {
  std::mt19937_64 random(1);
  std::vector<Float> numbers;
  for (int i = 0; i < 200'000; ++i) {
    const auto bits = static_cast<Bits>(random());
    Float number;
    std::memcpy(&number, &bits, sizeof(number));
    if (std::isfinite(number)) numbers.push_back(number);
    // Where the plain form is as short as the one with an exponent.
    numbers.push_back(-std::round(number * 0 == 0 ? std::pow(Float{10}, Float(i % 25)) *
                                                        Float(1.0 + (i % 9973) / 9973.0)
                                                  : Float{1}));
  }
  for (const Float number : numbers) {
    const std::string text = Print<Float>(type, {number});
    Float back = 0;
    std::from_chars(text.data() + 1, text.data() + text.size() - 1, back);
    ASSERT_EQ(std::memcmp(&back, &number, sizeof(number)), 0) << text;
  }
}
TEST(TensorJson, NoFloatIsLongerThanItsBound) {
  CheckFloats<float, uint32_t>(signature::ElementType::kFp32);
  CheckFloats<double, uint64_t>(signature::ElementType::kFp64);
}

}  // namespace
}  // namespace penstock::dialects
