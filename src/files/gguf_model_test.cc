// Models in GGUF files: golden files, files in parts, and TensorStore over them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/temp_folder_test_util.h"
#include "files/gguf.h"
#include "files/gguf_test_util.h"
#include "files/tensor_store.h"
#include "json/json.h"

namespace penstock::files {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

const fs::path kGoldens = PENSTOCK_GOLDEN_DIR "/gguf";

std::vector<float> Floats(const TensorRecord& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  EXPECT_TRUE(tensor.CopyToF32(values).ok());
  return values;
}

// Equal bits, but for NaN, whose bits the processor chooses.
void ExpectSameBits(const std::vector<float>& got, const std::vector<float>& want,
                    const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i])) {
      ASSERT_TRUE(std::isnan(got[i])) << what << " element " << i;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want[i]))
          << what << " element " << i << ": " << got[i] << " instead of " << want[i];
    }
  }
}

TEST(GgufGolden, EveryTypeHasTheValuesOfTheReference) {
  const auto store = TensorStore::OpenGguf((kGoldens / "types.gguf").string());
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  const numbers::DType types[] = {
      numbers::DType::kF32,  numbers::DType::kF16,  numbers::DType::kBf16, numbers::DType::kQ8_0,
      numbers::DType::kQ4_0, numbers::DType::kQ4_1, numbers::DType::kQ5_0, numbers::DType::kQ5_1,
      numbers::DType::kQ4K,  numbers::DType::kQ5K,  numbers::DType::kQ6K};
  ASSERT_EQ((*store)->tensors().size(), 2 * std::size(types));
  for (const numbers::DType type : types) {
    const std::string name = numbers::DTypeName(type);
    const TensorRecord* codes = (*store)->Find(name + ".codes");
    const TensorRecord* values = (*store)->Find(name + ".values");
    ASSERT_TRUE(codes != nullptr && values != nullptr) << name;
    EXPECT_EQ(codes->dtype, type);
    EXPECT_EQ(codes->shape, values->shape);
    const std::vector<float> want = Floats(*values);
    ExpectSameBits(Floats(*codes), want, name);
    // Some of everything: or the comparison above would be of little worth.
    EXPECT_TRUE(std::any_of(want.begin(), want.end(), [](float v) { return std::isnan(v); }));
    EXPECT_TRUE(std::any_of(want.begin(), want.end(), [](float v) { return std::isinf(v); }));
    EXPECT_GT(std::count_if(want.begin(), want.end(), [](float v) { return std::isnormal(v); }),
              30);
    // By rows, from places that are not aligned.
    const size_t columns = static_cast<size_t>(codes->shape[1]);
    std::vector<std::byte> moved(codes->data.size() + 1);
    std::copy(codes->data.begin(), codes->data.end(), moved.begin() + 1);
    std::vector<float> by_rows(want.size());
    for (size_t r = 0; r < static_cast<size_t>(codes->shape[0]); ++r) {
      numbers::ConvertToF32(type, moved.data() + 1 + r * numbers::StoredBytes(type, columns),
                            columns, by_rows.data() + r * columns);
    }
    ExpectSameBits(by_rows, want, name + " by rows");
  }
}

TEST(GgufGolden, EveryTypeOfMetadata) {
  const auto model = GgufModel::Open((kGoldens / "metadata.gguf").string());
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const GgufMetadata& m = model->metadata;
  EXPECT_EQ(*m.GetString("general.architecture"), "llama");
  const auto number = [&](const char* key) { return *m.GetInt(key, INT64_MIN, INT64_MAX); };
  EXPECT_EQ(number("one.uint8"), 200);
  EXPECT_EQ(number("one.int8"), -100);
  EXPECT_EQ(number("one.uint16"), 60000);
  EXPECT_EQ(number("one.int16"), -30000);
  EXPECT_EQ(number("one.uint32"), 4000000000);
  EXPECT_EQ(number("one.int32"), -2000000000);
  EXPECT_EQ(number("one.int64"), -(int64_t{1} << 62));
  EXPECT_THAT(m.GetInt("one.uint64", 0, 1).status().message(), HasSubstr("9223372036854775808"));
  EXPECT_EQ(*m.GetFloat("one.float32"), 0.1f);
  EXPECT_EQ(*m.GetFloat("one.float64"), 0.1);
  EXPECT_TRUE(*m.GetBool("one.true"));
  EXPECT_FALSE(*m.GetBool("one.false"));
  EXPECT_EQ(*m.GetString("one.string"), "na\u00efve \U0001f600");
  std::vector<std::string_view> strings;
  const auto read = m.GetStrings("many.strings");
  ASSERT_TRUE(read.ok());
  for (const std::string_view text : *read) strings.push_back(text);
  EXPECT_THAT(strings, ElementsAre("", "a", "\u20ac uro", "last"));
  const auto ints = m.GetInts("many.ints");
  EXPECT_THAT((std::vector<int64_t>{(*ints)[0], (*ints)[1], (*ints)[2]}), ElementsAre(1, -2, 3));
  const auto floats = m.GetFloats("many.floats");
  EXPECT_THAT((std::vector<double>{(*floats)[0], (*floats)[1]}), ElementsAre(0.5, -0.25));
  const auto bools = m.GetBools("many.bools");
  EXPECT_THAT((std::vector<bool>{(*bools)[0], (*bools)[1], (*bools)[2]}),
              ElementsAre(true, false, true));
  EXPECT_EQ((*m.GetInts("many.uint8"))[2], 255);
  EXPECT_EQ(m.GetArray("many.arrays")->Arrays()->size(), 2u);
}

class GgufPartsTest : public testing::Test {
 protected:
  std::string PathOf(int number, int count = 3) const {
    char name[64];
    std::snprintf(name, sizeof name, "m-%05d-of-%05d.gguf", number, count);
    return (folder_ / name).string();
  }
  // A part with one tensor, numbered from 1; `number` is what its keys say.
  static std::string Part(int number, int count, int tensors, const std::string& tensor) {
    return RawGguf({RawKey("split.no", GgufType::kUint16, Raw(static_cast<uint16_t>(number - 1))),
                    RawKey("split.count", GgufType::kUint16, Raw(static_cast<uint16_t>(count))),
                    RawKey("split.tensors.count", GgufType::kInt32, Raw(tensors))},
                   {RawTensor(tensor, {1}, 0, 0)}, std::string(4, 'x'));
  }
  static void Write(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  void WriteThree() const {
    for (int i = 1; i <= 3; ++i) Write(PathOf(i), Part(i, 3, 3, "t" + std::to_string(i)));
  }
  std::string Failure() const {
    std::string message;
    for (int i = 1; i <= 3; ++i) {  // whichever part is given
      const auto store = TensorStore::OpenGguf(PathOf(i));
      EXPECT_FALSE(store.ok()) << i;
      message += store.status().ToString() + "\n";
    }
    return message;
  }

  const TempFolder temp_;
  const fs::path folder_ = temp_.path();
};

TEST_F(GgufPartsTest, AModelInPartsOpensByAnyOfThem) {
  for (int i = 1; i <= 3; ++i) {
    const std::string path =
        (kGoldens / ("split-0000" + std::to_string(i) + "-of-00003.gguf")).string();
    const auto model = GgufModel::Open(path);
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    EXPECT_EQ(*model->metadata.GetInt("llama.block_count", 1, 9), 3);
    const auto store = TensorStore::OpenGguf(path);
    ASSERT_TRUE(store.ok());
    ASSERT_EQ((*store)->tensors().size(), 5u);
    for (int t = 0; t < 5; ++t) {
      const TensorRecord* tensor = (*store)->Find("blk." + std::to_string(t) + ".weight");
      ASSERT_NE(tensor, nullptr);
      EXPECT_THAT(tensor->shape, ElementsAre(2, 3 + t));
      EXPECT_EQ(Floats(*tensor), std::vector<float>(static_cast<size_t>(6 + 2 * t), t));
    }
    EXPECT_TRUE((*store)->Check().ok());
  }
}

TEST_F(GgufPartsTest, PartsAreHeldAgainstEachOther) {
  WriteThree();
  ASSERT_TRUE(TensorStore::OpenGguf(PathOf(2)).ok());

  fs::remove(PathOf(2));
  EXPECT_THAT(TensorStore::OpenGguf(PathOf(1)).status().message(),
              testing::AllOf(HasSubstr("part 2 of 3"), HasSubstr("m-00002-of-00003.gguf")));
  fs::create_symlink(PathOf(1), PathOf(2));  // a circle: part 2 is part 1 again
  EXPECT_THAT(TensorStore::OpenGguf(PathOf(1)).status().message(),
              HasSubstr("must be part 2 of 3, but is part 1 of 3"));
  EXPECT_FALSE(TensorStore::OpenGguf(PathOf(2)).ok());
  fs::remove(PathOf(2));
  fs::create_symlink(PathOf(2), PathOf(2));
  Failure();
  fs::remove(PathOf(2));

  Write(PathOf(2), Part(3, 3, 3, "t2"));  // a copy of part 3
  EXPECT_THAT(Failure(), HasSubstr("must be part 2 of 3, but is part 3 of 3"));
  Write(PathOf(2), Part(2, 4, 3, "t2"));  // of another model
  EXPECT_THAT(Failure(), HasSubstr("must be part 2 of 3, but is part 2 of 4"));
  Write(PathOf(2), RawGguf({}, {RawTensor("t2", {1}, 0, 0)}, "data"));
  EXPECT_THAT(TensorStore::OpenGguf(PathOf(1)).status().message(),
              HasSubstr("must be part 2 of 3, but is a whole model"));
  Write(PathOf(2), Part(2, 3, 4, "t2"));
  EXPECT_THAT(Failure(), HasSubstr("'split.tensors.count' is 4, in other parts it is 3"));
  Write(PathOf(2), Part(2, 3, 3, "t1"));
  EXPECT_THAT(Failure(), HasSubstr("tensor 't1' is in two parts"));
  Write(PathOf(2), "GGUF");
  EXPECT_THAT(Failure(), HasSubstr("m-00002-of-00003.gguf: truncated"));
}

TEST_F(GgufPartsTest, KeysOfPartsAreChecked) {
  const auto says = [&](const std::string& bytes, const char* words, int number = 1) {
    Write(PathOf(number), bytes);
    const auto model = GgufModel::Open(PathOf(number));
    ASSERT_FALSE(model.ok());
    EXPECT_THAT(model.status().message(), HasSubstr(words));
  };
  says(Part(2, 3, 3, "a"), "does not end in -00002-of-00003.gguf");
  says(Part(1, 2, 3, "a"), "does not end in -00001-of-00002.gguf");
  says(Part(4, 3, 3, "a"), "key 'split.no' must be from 0 to 2");
  says(Part(1, 2000, 3, "a"), "key 'split.count' must be from 0 to 1024");
  says(Part(1, 3, -1, "a"), "key 'split.tensors.count' must be from 0");
  says(RawGguf({RawKey("split.count", GgufType::kUint16, Raw(uint16_t{3}))}, {}, ""),
       "key 'split.no' is missing");
  for (int i = 1; i <= 3; ++i) Write(PathOf(i), Part(i, 3, 9, "t" + std::to_string(i)));
  EXPECT_THAT(Failure(), HasSubstr("its parts have 3 tensors, key 'split.tensors.count' says 9"));
  // One part alone is a model, whatever its name.
  Write(PathOf(1, 1), Part(1, 1, 7, "a"));
  EXPECT_TRUE(GgufModel::Open(PathOf(1, 1)).ok());
  Write((folder_ / "plain").string(), Part(1, 0, 7, "a"));
  EXPECT_TRUE(GgufModel::Open((folder_ / "plain").string()).ok());
}

// What reads tensors cannot tell which format they came from.
TEST_F(GgufPartsTest, BothFormatsGiveTheSameTensors) {
  const float numbers[] = {1, 2, 3, 4, 5, 6};
  const std::string data(reinterpret_cast<const char*>(numbers), sizeof numbers);
  Write((folder_ / "m.gguf").string(), RawGguf({}, {RawTensor("w", {3, 2}, 0, 0)}, data));
  const std::string header = R"({"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}})";
  Write((folder_ / "m.safetensors").string(), Raw(uint64_t{header.size()}) + header + data);
  const auto gguf = TensorStore::OpenGguf((folder_ / "m.gguf").string());
  const auto safetensors = TensorStore::OpenFile((folder_ / "m.safetensors").string());
  ASSERT_TRUE(gguf.ok() && safetensors.ok());
  EXPECT_EQ((*gguf)->bytes_total(), (*safetensors)->bytes_total());
  const TensorRecord& a = *(*gguf)->Find("w");
  const TensorRecord& b = *(*safetensors)->Find("w");
  EXPECT_EQ(a.shape, b.shape);
  EXPECT_EQ(a.dtype, b.dtype);
  EXPECT_TRUE(std::equal(a.data.begin(), a.data.end(), b.data.begin(), b.data.end()));
  EXPECT_EQ(Floats(a), Floats(b));
  // A file cut after it was opened is found out.
  fs::resize_file(folder_ / "m.gguf", 40);
  EXPECT_EQ((*gguf)->Check().code(), StatusCode::kUnavailable);
  EXPECT_EQ(TensorStore::OpenGguf((folder_ / "none.gguf").string()).status().code(),
            StatusCode::kNotFound);
}

// --- files of other implementations
// ---------------------------------------------------------------

class GgufTestData : public testing::Test {
 protected:
  void SetUp() override {
    const char* data = std::getenv("PENSTOCK_TESTDATA");
    root_ = data != nullptr ? data : PENSTOCK_SOURCE_DIR "/../shared/testdata";
    if (!fs::exists(root_)) {
      GTEST_SKIP() << "NO TEST DATA at " << root_ << ": set PENSTOCK_TESTDATA";
    }
  }
  static std::string Read(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    EXPECT_TRUE(in.good()) << path;
    return {std::istreambuf_iterator<char>(in), {}};
  }

  fs::path root_;
};

TEST_F(GgufTestData, FilesOfOthersOpen) {
  int opened = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root_)) {
    if (entry.path().extension() != ".gguf") continue;
    const auto model = GgufModel::Open(entry.path().string());
    if (entry.path().filename() == "tiny_kquant.gguf") {
      EXPECT_THAT(model.status().message(), HasSubstr("is of type Q2_K"));
      continue;
    }
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    EXPECT_TRUE(model->metadata.GetString("general.architecture").ok()) << entry.path();
    ++opened;
  }
  EXPECT_GT(opened, 10);
}

// Numbers, as other implementations wrote them in blocks; the error is what the bits allow.
TEST_F(GgufTestData, BlocksThatOthersQuantised) {
  const struct {
    const char* file;
    numbers::DType type;
    double error_max;  // root of the mean square; the numbers are even in [-1, 1]
  } cases[] = {
      {"q8_0_64", numbers::DType::kQ8_0, 0.0025}, {"q4_0_64", numbers::DType::kQ4_0, 0.045},
      {"q4_1_64", numbers::DType::kQ4_1, 0.04},   {"q5_0_64", numbers::DType::kQ5_0, 0.02},
      {"q5_1_64", numbers::DType::kQ5_1, 0.02},   {"q4_k_512", numbers::DType::kQ4K, 0.04},
      {"q5_k_512", numbers::DType::kQ5K, 0.02},   {"q6_k_512", numbers::DType::kQ6K, 0.01},
  };
  const fs::path folder = root_ / "robertelee78__hf2q/ggml_quants";
  if (!fs::exists(folder)) GTEST_SKIP() << "NO TEST DATA at " << folder;
  for (const auto& c : cases) {
    for (const char* variant : {"_im", "_noim"}) {
      const std::string input = Read(folder / (std::string(c.file) + variant + "_input.bin"));
      const std::string blocks = Read(folder / (std::string(c.file) + variant + "_expected.bin"));
      const size_t count = input.size() / sizeof(float);
      ASSERT_EQ(blocks.size(), numbers::StoredBytes(c.type, count)) << c.file;
      std::vector<float> want(count), got(count);
      std::memcpy(want.data(), input.data(), input.size());
      numbers::ConvertToF32(c.type, BytesOf(blocks).data(), count, got.data());
      double squares = 0;
      for (size_t i = 0; i < count; ++i) squares += std::pow(got[i] - want[i], 2);
      const double error = std::sqrt(squares / static_cast<double>(count));
      EXPECT_LT(error, c.error_max) << c.file << variant;
      EXPECT_GT(error, 0);
    }
  }
}

// A file of K types with what another implementation makes of them. It also has a tensor of Q2_K,
// which must be refused; with that one called F32, of as many bytes, the file opens.
TEST_F(GgufTestData, KTypesHaveTheValuesOfOthers) {
  const fs::path folder = root_ / "joaopauloschuler__neural-api/fixtures";
  if (!fs::exists(folder)) GTEST_SKIP() << "NO TEST DATA at " << folder;
  std::string bytes = Read(folder / "tiny_kquant.gguf");
  EXPECT_THAT(ParseGguf(BytesOf(bytes)).status().message(), HasSubstr("is of type Q2_K"));
  const std::string two_bits = Raw(uint32_t{1}) + Raw(uint64_t{1024}) + Raw(uint32_t{10});
  const std::string floats = Raw(uint32_t{1}) + Raw(uint64_t{84}) + Raw(uint32_t{0});
  const size_t at = bytes.find(two_bits);
  ASSERT_NE(at, std::string::npos);
  bytes.replace(at, floats.size(), floats);
  const auto file = ParseGguf(BytesOf(bytes));
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  const auto reference =
      JsonDocument::ParseFile((folder / "tiny_kquant_ref.json").string(), 1 << 20);
  ASSERT_TRUE(reference.ok());
  const JsonObject values = *reference->Object()->GetObject("dequant");
  int compared = 0;
  for (const TensorRecord& tensor : file->tensors) {
    if (!numbers::IsBlockType(tensor.dtype)) continue;
    const std::string type = numbers::DTypeName(tensor.dtype);
    std::vector<float> want;
    const JsonArray numbers = *values.GetArray(type);
    for (const JsonElement number : numbers) {
      double value = 0;
      ASSERT_TRUE(number.Get(&value));
      want.push_back(static_cast<float>(value));
    }
    ExpectSameBits(Floats(tensor), want, type);
    ++compared;
  }
  EXPECT_EQ(compared, 3);  // Q4_K, Q5_K, Q6_K
}

}  // namespace
}  // namespace penstock::files
