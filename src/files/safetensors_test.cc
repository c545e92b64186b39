#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <random>

#include "base/one_hash_test_util.h"
#include "base/temp_folder_test_util.h"
#include "files/tensor_store.h"
#include "json/json_writer.h"

namespace penstock::files {
namespace {

namespace fs = std::filesystem;

class SafetensorsTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) const {
    return temp_.Write(name, bytes);
  }
  static std::string Packed(const std::string& header, const std::string& data) {
    const uint64_t length = header.size();
    std::string out(reinterpret_cast<const char*>(&length), sizeof(length));
    return out + header + data;
  }
  Expected<std::unique_ptr<TensorStore>> Open(const std::string& header,
                                              const std::string& data) const {
    return TensorStore::OpenFile(Write("x.safetensors", Packed(header, data)));
  }
  std::string Failure(const std::string& header, const std::string& data) const {
    const auto store = Open(header, data);
    EXPECT_FALSE(store.ok()) << header;
    return store.status().ToString();
  }

  const TempFolder temp_;
  const fs::path folder_ = temp_.path();
};

std::string Bytes(std::initializer_list<float> numbers) {
  std::string out;
  for (const float number : numbers) {
    out.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  return out;
}

std::string Entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  uint64_t begin, uint64_t end) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":[" + std::to_string(begin) + "," + std::to_string(end) + "]}";
}

// A size of 0 behind them leaves no bytes, but elements() multiplies from the front.
TEST_F(SafetensorsTest, SizesWhoseProductOverflowsAreRefusedBesideAZero) {
  const std::string huge = std::to_string(int64_t{1} << 62);
  for (const std::string& shape : {"[" + huge + ",2,0]", "[0," + huge + ",4]"}) {
    EXPECT_NE(Failure("{" + Entry("a", "U8", shape, 0, 0) + "}", "").find("overflows"),
              std::string::npos)
        << shape;
  }
}

TEST_F(SafetensorsTest, ReadsTensorsInTheOrderOfTheBytes) {
  const auto store =
      Open("{\"__metadata__\":{\"format\":\"pt\"}," + Entry("b", "F32", "[2,1]", 4, 12) + "," +
               Entry("a", "F32", "[]", 0, 4) + "," + Entry("none", "F32", "[0,3]", 12, 12) + "}   ",
           Bytes({1, 2, 3}));
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  const TensorStore& tensors = **store;
  ASSERT_EQ(tensors.tensors().size(), 3u);
  EXPECT_EQ(tensors.tensors()[0].name, "a");
  EXPECT_EQ(tensors.bytes_total(), 12u);
  const TensorRecord* b = tensors.Find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->shape, (std::vector<int64_t>{2, 1}));
  std::vector<float> values(2);
  ASSERT_TRUE(b->CopyToF32(values).ok());
  EXPECT_EQ(values, (std::vector<float>{2, 3}));
  EXPECT_EQ(tensors.Find("none")->elements(), 0);
  EXPECT_TRUE(tensors.Find("none")->CopyToF32({}).ok());
  EXPECT_EQ(tensors.Find("c"), nullptr);
}

TEST_F(SafetensorsTest, WidensEveryHalfAndBfloat) {
  // All 65,536 values of each 16-bit type against arithmetic on their fields.
  std::string data;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    data.push_back(static_cast<char>(bits & 255));
    data.push_back(static_cast<char>(bits >> 8));
  }
  const auto store = Open("{" + Entry("h", "F16", "[65536]", 0, 131072) + "," +
                              Entry("b", "BF16", "[65536]", 131072, 262144) + "}",
                          data + data);
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  std::vector<float> half(65536), bfloat(65536);
  ASSERT_TRUE((*store)->Find("h")->CopyToF32(half).ok());
  ASSERT_TRUE((*store)->Find("b")->CopyToF32(bfloat).ok());
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const int exponent = static_cast<int>(bits >> 10) & 31;
    const int fraction = static_cast<int>(bits & 1023);
    const float sign = bits & 0x8000 ? -1.0f : 1.0f;
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(half[bits]), fraction != 0) << bits;
      EXPECT_EQ(std::isinf(half[bits]), fraction == 0) << bits;
    } else {
      const float expected = exponent == 0
                                 ? std::ldexp(static_cast<float>(fraction), -24)
                                 : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
      EXPECT_EQ(half[bits], sign * expected) << bits;
    }
    EXPECT_EQ(std::signbit(half[bits]), (bits & 0x8000) != 0) << bits;
    EXPECT_EQ(std::bit_cast<uint32_t>(bfloat[bits]), bits << 16) << bits;
  }
}

TEST_F(SafetensorsTest, WidensUnalignedDoublesAndRefusesIntegers) {
  double number = 2.5;
  std::string data(1, 'x');
  data.append(reinterpret_cast<const char*>(&number), 8);
  const auto store =
      Open("{" + Entry("i", "I8", "[1]", 0, 1) + "," + Entry("d", "F64", "[1]", 1, 9) + "}", data);
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  float value = 0;
  ASSERT_TRUE((*store)->Find("d")->CopyToF32({&value, 1}).ok());
  EXPECT_EQ(value, 2.5f);
  EXPECT_EQ((*store)->Find("i")->CopyToF32({&value, 1}).code(), StatusCode::kUnsupported);
}

TEST_F(SafetensorsTest, BadHeadersAreRefusedWithTheReason) {
  const std::string data = Bytes({1, 2, 3, 4});
  const struct {
    std::string header, says;
  } cases[] = {
      {"{" + Entry("a", "F32", "[2]", 0, 8) + "," + Entry("b", "F32", "[3]", 4, 16) + "}",
       "inside the tensor before it"},
      {"{" + Entry("a", "F32", "[2]", 0, 8) + "," + Entry("b", "F32", "[1]", 12, 16) + "}",
       "not where the tensor before it ends"},
      {"{" + Entry("a", "F32", "[3]", 0, 12) + "}", "the tensors end at byte 12 of 16"},
      {"{" + Entry("a", "F32", "[4]", 0, 20) + "}", "'data_offsets' must be"},
      {"{" + Entry("a", "F32", "[4]", 16, 0) + "}", "'data_offsets' must be"},
      {"{" + Entry("a", "F32", "[5]", 0, 16) + "}", "takes 20 bytes, 'data_offsets' hold 16"},
      {"{" + Entry("a", "F32", "[4611686018427387904,4]", 0, 16) + "}", "overflows"},
      {"{" + Entry("a", "F32", "[-4]", 0, 16) + "}", "'shape' must hold whole numbers"},
      {"{" + Entry("a", "F32", "[4.5]", 0, 16) + "}", "'shape' must hold whole numbers"},
      {"{" + Entry("a", "F32", "\"4\"", 0, 16) + "}", "'shape' must be"},
      {"{" + Entry("a", "F7", "[4]", 0, 16) + "}", "dtype F7 is not supported"},
      {"{" + Entry("a", "F32", "[2]", 0, 8) + "," + Entry("a", "F32", "[2]", 8, 16) + "}", "twice"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4]}}", "'data_offsets' is missing"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0]}}", "'data_offsets' must be"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,1,2]}}", "at most 2"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[-1,16]}}", "whole numbers"},
      {"{\"a\":[]}", "tensor 'a' is not an object"},
      {"[]", "must be an object"},
      {"{\"a\":", "not valid JSON"},
      {"", "not valid JSON"},
  };
  for (const auto& c : cases) {
    const std::string failure = Failure(c.header, data);
    EXPECT_NE(failure.find(c.says), std::string::npos) << failure << "\nfor " << c.header;
    EXPECT_NE(failure.find("x.safetensors"), std::string::npos) << failure;
  }
}

TEST_F(SafetensorsTest, LengthFieldIsNotTrusted) {
  const std::string good = Packed("{" + Entry("a", "F32", "[1]", 0, 4) + "}", Bytes({1}));
  for (size_t bytes = 0; bytes < good.size(); ++bytes) {
    EXPECT_FALSE(TensorStore::OpenFile(Write("cut", good.substr(0, bytes))).ok()) << bytes;
  }
  for (const uint64_t length :
       {uint64_t{0}, uint64_t{1} << 20, uint64_t{101} << 20, ~uint64_t{0}, ~uint64_t{0} - 7}) {
    std::string bad = good;
    std::memcpy(bad.data(), &length, sizeof(length));
    EXPECT_FALSE(TensorStore::OpenFile(Write("bad", bad)).ok()) << length;
  }
  EXPECT_EQ(TensorStore::OpenFile((folder_ / "gone").string()).status().code(),
            StatusCode::kNotFound);
}

TEST_F(SafetensorsTest, MutatedHeadersNeverCrashOrReachOutside) {
  const std::string good =
      Packed("{\"__metadata__\":{\"k\":\"v\"}," + Entry("a", "F16", "[2,2]", 0, 8) + "," +
                 Entry("b.weight", "F32", "[1]", 8, 12) + "}",
             std::string(12, '\1'));
  std::mt19937 random(7);
  int opened = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bad = good;
    const size_t changes = 1 + random() % 3;
    for (size_t c = 0; c < changes; ++c) {
      constexpr char kLikely[] = "0123456789[]{},:\"-eF";
      const size_t at = random() % (bad.size() - 12);
      bad[at] = random() % 2 ? static_cast<char>(random()) : kLikely[random() % 20];
    }
    const std::string path = Write("mutant", bad);
    const auto store = TensorStore::OpenFile(path);
    if (!store.ok()) continue;
    ++opened;
    for (const TensorRecord& tensor : (*store)->tensors()) {
      ASSERT_EQ(tensor.data.size(),
                static_cast<size_t>(tensor.elements()) * numbers::DTypeBytes(tensor.dtype));
      unsigned sum = 0;
      for (const std::byte byte : tensor.data) sum += std::to_integer<unsigned>(byte);
      ASSERT_LE(sum, 255u * bad.size());
    }
  }
  EXPECT_GT(opened, 0);
}

TEST_F(SafetensorsTest, FoldersWithShards) {
  Write("m-1.safetensors", Packed("{" + Entry("a", "F32", "[1]", 0, 4) + "}", Bytes({1})));
  Write("m-2.safetensors", Packed("{" + Entry("b", "F32", "[1]", 0, 4) + "}", Bytes({2})));
  const auto index = [&](const std::string& map) {
    Write("model.safetensors.index.json", "{\"weight_map\":" + map + "}");
    return TensorStore::OpenFolder(folder_.string());
  };
  const auto good = index(R"({"a": "m-1.safetensors", "b": "m-2.safetensors"})");
  ASSERT_TRUE(good.ok()) << good.status().ToString();
  EXPECT_EQ((*good)->bytes_total(), 8u);
  EXPECT_NE((*good)->Find("b"), nullptr);

  for (const auto& [map, says] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"({"a": "../m-1.safetensors"})", "not the name of a file"},
           {R"({"a": "/etc/passwd"})", "not the name of a file"},
           {R"({"a": "m-3.safetensors"})", "cannot open"},
           {R"({"a": 3})", "weight_map.a"},
           {R"({})", "missing or empty"},
           {R"({"z": "m-1.safetensors"})", "tensor 'z' is not in m-1.safetensors"},
       }) {
    const auto bad = index(map);
    ASSERT_FALSE(bad.ok()) << map;
    EXPECT_NE(bad.status().message().find(says), std::string::npos) << bad.status().ToString();
  }
  Write("m-2.safetensors", Packed("{" + Entry("a", "F32", "[1]", 0, 4) + "}", Bytes({2})));
  const auto twice = index(R"({"a": "m-1.safetensors", "b": "m-2.safetensors"})");
  EXPECT_NE(twice.status().message().find("in two files"), std::string::npos);
}

TEST_F(SafetensorsTest, FoldersWithoutSafetensorsSayWhatIsThere) {
  EXPECT_EQ(TensorStore::OpenFolder(folder_.string()).status().code(), StatusCode::kNotFound);
  Write("pytorch_model.bin", "x");
  const auto status = TensorStore::OpenFolder(folder_.string()).status();
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_NE(status.message().find("pytorch_model.bin"), std::string::npos);
}

TEST(Safetensors, GoldenModelsOpen) {
  int opened = 0;
  for (const auto& entry : fs::directory_iterator(PENSTOCK_GOLDEN_DIR "/models")) {
    const auto store = TensorStore::OpenFolder(entry.path().string());
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    EXPECT_FALSE((*store)->tensors().empty());
    ++opened;
  }
  EXPECT_GT(opened, 5);
}

// Files written by other implementations.
TEST(Safetensors, FilesOfOthersOpen) {
  const char* data = std::getenv("PENSTOCK_TESTDATA");
  const fs::path root = data != nullptr ? data : PENSTOCK_SOURCE_DIR "/../shared/testdata";
  if (!fs::exists(root)) GTEST_SKIP() << "no test data at " << root;
  int opened = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().extension() != ".safetensors") continue;
    const auto store = TensorStore::OpenFile(entry.path().string());
    if (store.ok()) {
      ++opened;
    } else {
      EXPECT_EQ(store.status().code(), StatusCode::kUnsupported) << store.status().ToString();
    }
  }
  EXPECT_GT(opened, 0);
}

TEST_F(SafetensorsTest, NamesOfOneHashTakeNoLonger) {
  const double ratio = OneHashRatio(20'000, [&](const std::vector<std::string>& names) {
    std::string header;
    JsonWriter json(&header);
    json.BeginObject();
    uint64_t at = 0;
    for (const std::string& name : names) {
      json.Key(name)
          .BeginObject()
          .Field("dtype", "F32")
          .Key("shape")
          .BeginArray()
          .Int(1)
          .EndArray();
      json.Key("data_offsets").BeginArray().Int(static_cast<int64_t>(at));
      json.Int(static_cast<int64_t>(at += 4)).EndArray().EndObject();
    }
    json.EndObject();
    const auto store = Open(header, std::string(at, '\0'));
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    EXPECT_NE((*store)->Find(names.back()), nullptr);
  });
  std::cout << "time of names of one hash over others: " << ratio << "\n";
  EXPECT_LT(ratio, 2);
}

}  // namespace
}  // namespace penstock::files
