#include "files/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "files/gguf_test_util.h"

namespace penstock::files {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint32_t kF32 = 0;
constexpr uint32_t kQ4_0 = 2;

std::string Failure(const std::string& bytes) {
  const auto file = ParseGguf(BytesOf(bytes));
  EXPECT_FALSE(file.ok());
  return file.status().ToString();
}

std::string TextKey(std::string_view key, std::string_view value) {
  return RawKey(key, GgufType::kString, RawText(value));
}

// Two tensors, keys of many types: what tests break.
std::string SmallFile(uint32_t version = 3) {
  return RawGguf(
      {TextKey("general.architecture", "llama"),
       RawKey("llama.block_count", GgufType::kUint32, Raw(uint32_t{2})),
       RawKey("tokens", GgufType::kArray,
              RawArray(GgufType::kString, 3, RawText("a") + RawText("") + RawText("bc"))),
       RawKey("bools", GgufType::kArray, RawArray(GgufType::kBool, 2, {"\1\0", 2})),
       RawKey("nested", GgufType::kArray,
              RawArray(GgufType::kArray, 2,
                       RawArray(GgufType::kUint16, 2, Raw(uint32_t{0x00020001})) +
                           RawArray(GgufType::kString, 1, RawText("in"))))},
      {RawTensor("b", {32, 2}, kQ4_0, 32), RawTensor("a", {3}, kF32, 0)},
      std::string(32 + 36, '\1'), kGgufAlignment, version);
}

TEST(Gguf, ReadsMetadataAndTensors) {
  for (const uint32_t version : {2u, 3u}) {
    const std::string bytes = SmallFile(version);
    const auto file = ParseGguf(BytesOf(bytes));
    ASSERT_TRUE(file.ok()) << file.status().ToString();
    EXPECT_EQ(file->version, version);
    EXPECT_EQ(file->alignment, 32u);
    EXPECT_EQ(*file->metadata.GetInt("llama.block_count", 1, 100), 2);
    ASSERT_EQ(file->tensors.size(), 2u);
    EXPECT_EQ(file->tensors[0].name, "a");  // in the order of the bytes
    EXPECT_THAT(file->tensors[0].shape, ElementsAre(3));
    EXPECT_EQ(file->tensors[1].dtype, numbers::DType::kQ4_0);
    EXPECT_THAT(file->tensors[1].shape, ElementsAre(2, 32));  // the slowest first
    EXPECT_EQ(file->tensors[1].data.size(), 36u);
    EXPECT_EQ(reinterpret_cast<const char*>(file->tensors[1].data.data()),
              bytes.data() + bytes.size() - 36);
  }
}

TEST(Gguf, ArraysLieInArrays) {
  const std::string bytes = SmallFile();
  const auto file = ParseGguf(BytesOf(bytes));
  ASSERT_TRUE(file.ok());
  const auto arrays = file->metadata.GetArray("nested")->Arrays();
  ASSERT_TRUE(arrays.ok());
  ASSERT_EQ(arrays->size(), 2u);
  auto at = arrays->begin();
  const auto ints = (*at).Ints();
  ASSERT_TRUE(ints.ok());
  EXPECT_EQ(ints->size(), 2u);
  EXPECT_EQ((*ints)[1], 2);
  EXPECT_EQ(*(*++at).Strings()->begin(), "in");
  EXPECT_TRUE(++at == arrays->end());
}

TEST(Gguf, AFileWithoutTensorsNeedsNoPadding) {
  const std::string bytes = RawGguf({TextKey("a", "b")}, {}, "");
  EXPECT_TRUE(ParseGguf(BytesOf(bytes)).ok());
  EXPECT_TRUE(ParseGguf(BytesOf(RawGguf({}, {}, ""))).ok());
}

TEST(Gguf, GettersSayWhatTheKeyMustBe) {
  const auto number = [](std::string_view key, GgufType type, auto value) {
    return RawKey(key, type, Raw(value));
  };
  const std::string bytes = RawGguf(
      {number("u", GgufType::kUint32, uint32_t{7}), number("i", GgufType::kInt8, int8_t{-3}),
       number("huge", GgufType::kUint64, ~uint64_t{0}), number("f", GgufType::kFloat32, 0.5f),
       number("nan", GgufType::kFloat64, std::numeric_limits<double>::quiet_NaN()),
       TextKey("s", "text"), RawKey("b", GgufType::kBool, "\1"),
       RawKey("ints", GgufType::kArray, RawArray(GgufType::kInt16, 1, Raw(int16_t{-9}))),
       RawKey("huges", GgufType::kArray, RawArray(GgufType::kUint64, 1, Raw(~uint64_t{0})))},
      {}, "");
  const auto file = ParseGguf(BytesOf(bytes));
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  const GgufMetadata& m = file->metadata;
  EXPECT_EQ(*m.GetInt("u", 0, 7), 7);
  EXPECT_EQ(*m.GetInt("i", -3, 0), -3);
  EXPECT_EQ(*m.GetIntOr("none", 5, 0, 1), 5);
  EXPECT_EQ(*m.GetFloat("f"), 0.5);
  EXPECT_EQ(*m.GetFloatOr("none", 0.25), 0.25);
  EXPECT_EQ(*m.GetString("s"), "text");
  EXPECT_EQ(*m.GetStringOr("none", "x"), "x");
  EXPECT_TRUE(*m.GetBool("b"));
  EXPECT_FALSE(*m.GetBoolOr("none", false));
  EXPECT_EQ((*m.GetInts("ints"))[0], -9);

  const auto says = [](const auto& result, const std::string& message) {
    ASSERT_FALSE(result.ok()) << message;
    EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(result.status().message(), message);
    EXPECT_FALSE(result.status().field().empty());
  };
  says(m.GetInt("none", 0, 9), "key 'none' is missing");
  says(m.GetInt("s", 0, 9), "key 's' must be an unsigned integer, but is of type string");
  says(m.GetInt("f", -1, 9), "key 'f' must be an integer, but is of type float32");
  says(m.GetInt("ints", 0, 9),
       "key 'ints' must be an unsigned integer, but is an array of type int16");
  says(m.GetInt("i", 0, 9), "key 'i' must be from 0 to 9, but is -3");
  says(m.GetInt("huge", 0, 9), "key 'huge' must be from 0 to 9, but is 18446744073709551615");
  says(m.GetIntOr("u", 1, 0, 6), "key 'u' must be from 0 to 6, but is 7");
  says(m.GetFloat("u"), "key 'u' must be a float, but is of type uint32");
  says(m.GetFloat("f", 1, 2), "key 'f' must be from 1 to 2, but is 0.5");
  says(m.GetFloat("nan", 1, 2), "key 'nan' must be from 1 to 2, but is nan");
  says(m.GetFloatOr("s", 1), "key 's' must be a float, but is of type string");
  says(m.GetBool("u"), "key 'u' must be a bool, but is of type uint32");
  says(m.GetBoolOr("u", true), "key 'u' must be a bool, but is of type uint32");
  says(m.GetString("u"), "key 'u' must be a string, but is of type uint32");
  says(m.GetStringOr("b", ""), "key 'b' must be a string, but is of type bool");
  says(m.GetArray("u"), "key 'u' must be an array, but is of type uint32");
  says(m.GetStrings("ints"), "key 'ints' must be an array of strings");
  says(m.GetFloats("ints"), "key 'ints' must be an array of floats");
  says(m.GetBools("ints"), "key 'ints' must be an array of bools");
  says(m.GetInts("huges"),
       "key 'huges' must be an array of integers up to 2^63 - 1, but has 18446744073709551615");
}

TEST(Gguf, CutAtAnyByteItIsRefused) {
  const std::string whole = SmallFile();
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const std::vector<char> cut(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(bytes));
    const auto file = ParseGguf(std::as_bytes(std::span(cut)));
    ASSERT_FALSE(file.ok()) << bytes;
    EXPECT_THAT(file.status().message(), HasSubstr("truncated")) << bytes;
  }
}

struct Broken {
  std::string bytes;
  const char* says;
};

TEST(Gguf, BrokenHeadersAreRefused) {
  const std::string small = SmallFile();
  const auto head = [](uint32_t version, uint64_t tensors, uint64_t keys) {
    return "GGUF" + Raw(version) + Raw(tensors) + Raw(keys) + std::string(64, '\0');
  };
  const Broken cases[] = {
      {"GGML" + small.substr(4), "is not a GGUF file"},
      {std::string(100, '\0'), "is not a GGUF file"},
      {head(0, 0, 0), "GGUF version 0"},
      {head(1, 0, 0), "GGUF version 1"},
      {head(4, 0, 0), "GGUF version 4"},
      {head(0x03000000, 0, 0), "big-endian"},
      {head(3, uint64_t{1} << 63, 0), "9223372036854775808 tensors; at most 1048576"},
      {head(3, 1 << 20, 0), "claims 1048576 tensors, the file has 64 bytes"},
      {head(3, 0, ~uint64_t{0}), "18446744073709551615 keys; at most 65536"},
      {head(3, 0, 65536), "claims 65536 keys, the file has 64 bytes"},
  };
  for (const Broken& broken : cases) EXPECT_THAT(Failure(broken.bytes), HasSubstr(broken.says));
}

TEST(Gguf, BrokenMetadataIsRefused) {
  const auto with = [](const std::string& key) {
    return RawGguf({key}, {}, std::string(64, '\0'));
  };
  const auto array = [&](GgufType type, uint64_t count, const std::string& elements) {
    return with(RawKey("a", GgufType::kArray, RawArray(type, count, elements)));
  };
  const auto unknown = static_cast<GgufType>(13);
  std::string deep = RawArray(GgufType::kUint8, 1, "x");
  for (int i = 0; i < kGgufArrayDepthMax - 1; ++i) deep = RawArray(GgufType::kArray, 1, deep);
  ASSERT_TRUE(ParseGguf(BytesOf(with(RawKey("a", GgufType::kArray, deep)))).ok());
  deep = RawArray(GgufType::kArray, 1, deep);
  // Each level takes 12 bytes: without the limit, a small file would use up the stack.
  std::string abyss;
  for (int i = 0; i < 100000; ++i) abyss += RawType(GgufType::kArray) + Raw(uint64_t{1});
  const Broken cases[] = {
      {with(RawKey("", GgufType::kBool, "x")), "key 1 of 1 has 0 bytes"},
      {with(RawKey(std::string(65536, 'k'), GgufType::kBool, "x")), "has 65536 bytes"},
      {with(Raw(~uint64_t{0}) + "abc"), "key 1 of 1: truncated"},
      {with(RawKey("a", unknown, "x")), "key 'a': its type has number 13"},
      {with(RawKey("a\nb", static_cast<GgufType>(~0u), "x")), "key 'a\\nb': its type has number"},
      {with(RawKey("a", GgufType::kBool, "\2")), "key 'a': a bool must be 0 or 1, but is 2"},
      {with(RawKey("a", GgufType::kString, Raw(uint64_t{1} << 63))), "key 'a': truncated"},
      {with(RawKey("a", GgufType::kString, Raw(uint64_t{100}))), "key 'a': truncated"},
      {array(GgufType::kUint8, ~uint64_t{0}, ""),
       "claims 18446744073709551615 values of type uint8"},
      {array(GgufType::kFloat64, (uint64_t{1} << 61) + 1, ""), "values of type float64"},
      {array(GgufType::kString, uint64_t{1} << 40, ""), "values of type string"},
      {array(GgufType::kString, 3, Raw(uint64_t{100})), "key 'a': truncated"},
      {array(GgufType::kArray, uint64_t{1} << 40, ""), "values of type array"},
      {array(GgufType::kBool, 2, "\1\3"), "a bool must be 0 or 1, but is 3"},
      {array(unknown, 1, "x"), "its type has number 13"},
      {with(RawKey("a", GgufType::kArray, deep)), "more than 4 levels deep"},
      {with(RawKey("a", GgufType::kArray, abyss)), "more than 4 levels deep"},
      {RawGguf({TextKey("a", "x"), TextKey("a", "y")}, {}, ""), "key 'a' is there twice"},
  };
  for (const Broken& broken : cases) EXPECT_THAT(Failure(broken.bytes), HasSubstr(broken.says));
}

TEST(Gguf, AlignmentIsAPowerOfTwoInItsRange) {
  const auto with = [](const std::string& value, GgufType type, uint64_t alignment) {
    return RawGguf({RawKey("general.alignment", type, value)}, {RawTensor("a", {1}, kF32, 0)},
                   std::string(4, 'x'), alignment);
  };
  for (const uint32_t good : {8u, 16u, 4096u, 2u << 20}) {
    const std::string bytes = with(Raw(good), GgufType::kUint32, good);
    const auto file = ParseGguf(BytesOf(bytes));
    ASSERT_TRUE(file.ok()) << file.status().ToString();
    EXPECT_EQ(file->alignment, good);
    EXPECT_EQ(static_cast<char>(file->tensors[0].data[0]), 'x');
  }
  for (const uint64_t bad : {uint64_t{0}, uint64_t{1}, uint64_t{4}, uint64_t{4} << 20,
                             uint64_t{1} << 31, uint64_t{1} << 63, ~uint64_t{0}}) {
    EXPECT_THAT(Failure(with(Raw(bad), GgufType::kUint64, 32)),
                HasSubstr("key 'general.alignment' must be from 8 to 2097152"));
  }
  EXPECT_THAT(Failure(with(Raw(uint32_t{24}), GgufType::kUint32, 32)), HasSubstr("power of two"));
  EXPECT_THAT(Failure(with(Raw(int32_t{-32}), GgufType::kInt32, 32)), HasSubstr("but is -32"));
  EXPECT_THAT(Failure(with(RawText("32"), GgufType::kString, 32)), HasSubstr("unsigned integer"));
  EXPECT_THAT(Failure(with(Raw(uint64_t{3}), GgufType::kUint64, 32)), HasSubstr("from 8"));
}

TEST(Gguf, BrokenTensorsAreRefused) {
  const auto with = [](const std::string& tensor) {
    return RawGguf({}, {tensor}, std::string(64, 'x'));
  };
  const auto two = [](const std::string& a, const std::string& b) {
    return RawGguf({}, {a, b}, std::string(128, 'x'));
  };
  const uint64_t huge = uint64_t{1} << 62;
  const std::string long_name(kGgufNameBytesMax + 1, 'n');
  const Broken cases[] = {
      {with(RawTensor("", {1}, kF32, 0)), "name of 0 bytes"},
      {with(RawTensor(long_name, {1}, kF32, 0)), "name of 257 bytes"},
      {with(RawTensor("a", {1, 1, 1, 1, 1}, kF32, 0)), "tensor 'a': has 5 dimensions; at most 4"},
      {with(RawText("a") + Raw(~0u)), "tensor 'a': has 4294967295 dimensions"},
      {with(RawTensor("a", {0}, kF32, 0)), "a size of 0"},
      {with(RawTensor("a", {huge, 4}, kF32, 0)), "overflows"},
      {with(RawTensor("a", {uint64_t{1} << 63}, kF32, 0)), "overflows"},
      {with(RawTensor("a", {huge}, kF32, 0)), "overflow"},
      {with(RawTensor("a", {17}, kF32, 0)), "takes 68 bytes from byte 0"},
      {with(RawTensor("a", {1}, kF32, 64)), "takes 4 bytes from byte 64"},
      {with(RawTensor("a", {1}, kF32, ~uint64_t{0} - 31)), "takes 4 bytes"},
      {with(RawTensor("a", {1}, kF32, 4)), "not a multiple of the alignment, 32"},
      {with(RawTensor("a", {48}, kQ4_0, 0)), "rows of 48 elements"},
      {with(RawTensor("a", {16, 2}, kQ4_0, 0)), "rows of 16 elements"},
      {with(RawTensor("blk.0.attn_q.weight", {256}, 16, 0)),
       "tensor 'blk.0.attn_q.weight': is of type IQ2_XXS, which is not supported"},
      {with(RawTensor("a", {256}, 10, 0)), "of type Q2_K"},
      {with(RawTensor("a", {1}, 28, 0)), "of type F64"},
      {with(RawTensor("a", {32}, 39, 0)), "of type MXFP4"},
      {with(RawTensor("a", {1}, 42, 0)), "a type of number 42"},
      {with(RawTensor("a", {1}, ~0u, 0)), "a type of number 4294967295"},
      {two(RawTensor("a", {1}, kF32, 0), RawTensor("a", {1}, kF32, 32)), "'a' is there twice"},
      {two(RawTensor("a", {9}, kF32, 0), RawTensor("b", {1}, kF32, 32)), "inside tensor 'a'"},
      {two(RawTensor("a", {9}, kF32, 32), RawTensor("b", {1}, kF32, 32)), "inside tensor"},
      {two(RawTensor("a", {1}, kF32, 0), RawTensor("b", {1}, kF32, 0)), "inside tensor"},
  };
  for (const Broken& broken : cases) EXPECT_THAT(Failure(broken.bytes), HasSubstr(broken.says));
  const std::string overlapping = two(RawTensor("a", {8}, kF32, 0), RawTensor("b", {1}, kF32, 32));
  EXPECT_TRUE(ParseGguf(BytesOf(overlapping)).ok());
  EXPECT_EQ(ParseGguf(BytesOf(with(RawTensor("a", {1}, 28, 0)))).status().code(),
            StatusCode::kUnsupported);
}

// Another process may write to the file that is mapped: the views stay inside.
TEST(Gguf, ViewsOfChangedBytesStayInside) {
  const std::string good = SmallFile();
  ASSERT_TRUE(ParseGguf(BytesOf(good)).ok());
  for (const char filler : {'\0', '\1', '\x7f', '\xff'}) {
    for (size_t from = 24; from < good.size(); from += 3) {
      std::vector<char> bytes(good.begin(), good.end());  // of its exact size, for sanitizers
      const auto file = ParseGguf(std::as_bytes(std::span(bytes)));
      ASSERT_TRUE(file.ok());
      std::fill(bytes.begin() + static_cast<ptrdiff_t>(from), bytes.end(), filler);
      ReadEverything(*file);
    }
  }
}

}  // namespace
}  // namespace penstock::files
