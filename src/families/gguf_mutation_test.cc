// Broken GGUF files by the hundred thousand, and what reading allocates.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <random>
#include <set>

#include "base/failing_new.h"
#include "families/decoder_test_util.h"
#include "files/gguf.h"
#include "files/gguf_test_util.h"

namespace penstock::families {
namespace {

// What a file of no more than this may have allocated at once: a small header's names and errors.
constexpr size_t kSmallBytes = 4096;

std::string Vocabulary(size_t tokens) {
  std::string texts;
  std::string scores;
  for (size_t i = 0; i < tokens; ++i) {
    texts += files::RawText("token" + std::to_string(i));
    scores += files::Raw(static_cast<float>(i));
  }
  return files::RawGguf({files::RawKey("tokens", files::GgufType::kArray,
                                       files::RawArray(files::GgufType::kString, tokens, texts)),
                         files::RawKey("scores", files::GgufType::kArray,
                                       files::RawArray(files::GgufType::kFloat32, tokens, scores))},
                        {}, "");
}

TEST(GgufMemory, AnArrayOfStringsCostsNoCopyAndNoIndex) {
  constexpr size_t kTokens = 250000;
  const std::string bytes = Vocabulary(kTokens);
  const long before = FailingNew::Allocations();
  const uint64_t bytes_before = FailingNew::AllocatedBytes();
  const auto file = files::ParseGguf(files::BytesOf(bytes));
  ASSERT_TRUE(file.ok());
  const auto tokens = file->metadata.GetStrings("tokens");
  ASSERT_TRUE(tokens.ok());
  size_t letters = 0;
  for (const std::string_view token : *tokens) letters += token.size();
  EXPECT_LT(FailingNew::Allocations() - before, 30);
  EXPECT_LT(FailingNew::AllocatedBytes() - bytes_before, 4096u);
  EXPECT_EQ(tokens->size(), kTokens);
  EXPECT_EQ(letters, 5 * kTokens + 10 + 90 * 2 + 900 * 3 + 9000 * 4 + 90000 * 5 + 150000 * 6);
}

// Sizes that a decoder's keys claim cost nothing.
TEST(GgufMemory, ADecoderCostsWhatItsFileHas) {
  const TempFolder folder;
  TestKeys keys = SmallKeys("llama");
  for (const auto& [name, value] :
       std::map<std::string, uint32_t>{{"llama.block_count", kDecoderLayersMax},
                                       {"llama.context_length", kDecoderContextMax},
                                       {"llama.feed_forward_length", kDecoderIntermediateMax},
                                       {"llama.attention.head_count", kDecoderHeadsMax},
                                       {"llama.attention.head_count_kv", kDecoderHeadsMax},
                                       {"llama.attention.key_length", kDecoderHeadSizeMax},
                                       {"llama.embedding_length", kDecoderHiddenMax}}) {
    keys[name] = RawU32(name, value);
  }
  TestTensors tensors = SmallGgufTensors();
  tensors["rope_freqs.weight"] = {2};
  folder.Write("claims.gguf", GgufOf(keys, tensors));
  folder.Write("good.gguf", GgufOf(SmallKeys("llama"), SmallGgufTensors()));
  for (const char* const name : {"claims.gguf", "good.gguf"}) {
    const uint64_t bytes_before = FailingNew::AllocatedBytes();
    const auto files = DecoderFiles::Open(folder / name);
    EXPECT_LT(FailingNew::AllocatedBytes() - bytes_before, 100'000u) << name;
    EXPECT_EQ(files.ok(), name == std::string("good.gguf")) << files.status().ToString();
  }
}

// Three files whose headers have everything there is.
std::vector<std::string> Seeds() {
  std::string bools(20, '\1');
  std::vector<std::string> keys = {
      files::RawKey("general.architecture", files::GgufType::kString, files::RawText("llama")),
      files::RawKey("general.alignment", files::GgufType::kUint32, files::Raw(uint32_t{32})),
      files::RawKey("u8", files::GgufType::kUint8, "a"),
      files::RawKey("i16", files::GgufType::kInt16, files::Raw(int16_t{-2})),
      files::RawKey("i64", files::GgufType::kInt64, files::Raw(int64_t{-2})),
      files::RawKey("f64", files::GgufType::kFloat64, files::Raw(0.5)),
      files::RawKey("bools", files::GgufType::kArray,
                    files::RawArray(files::GgufType::kBool, bools.size(), bools)),
      files::RawKey(
          "tokens", files::GgufType::kArray,
          files::RawArray(files::GgufType::kString, 3,
                          files::RawText("a") + files::RawText("") + files::RawText("bc"))),
      files::RawKey(
          "nested", files::GgufType::kArray,
          files::RawArray(files::GgufType::kArray, 2,
                          files::RawArray(files::GgufType::kArray, 1,
                                          files::RawArray(files::GgufType::kUint8, 2, "xy")) +
                              files::RawArray(files::GgufType::kString, 1, files::RawText("in")))),
  };
  const std::vector<std::string> tensors = {
      files::RawTensor("q6", {256, 2}, 14, 0),   files::RawTensor("q4", {512}, 12, 448),
      files::RawTensor("q8", {32, 4}, 8, 736),   files::RawTensor("f", {8, 4, 4}, 0, 896),
      files::RawTensor("h", {64}, 1, 896 + 512), files::RawTensor("b", {64}, 30, 896 + 640),
  };
  const std::string data(4096, '\3');
  std::vector<std::string> seeds = {files::RawGguf(keys, tensors, data),
                                    files::RawGguf(keys, tensors, data, 32, 2)};
  seeds.push_back(files::RawGguf({keys[0]}, {tensors[0]}, data));
  return seeds;
}

// The numbers that break readers.
uint64_t Nasty(std::mt19937_64* random, uint64_t file_bytes) {
  const uint64_t small = (*random)() % 40;
  switch ((*random)() % 8) {
    case 0:
      return small;
    case 1:
      return ~uint64_t{0} - small;
    case 2:
      return (uint64_t{1} << 63) - small % 3 + 1;
    case 3:
      return (uint64_t{1} << 32) - small % 3;
    case 4:
      return (uint64_t{1} << 31) - small % 3;
    case 5:
      return file_bytes - small;
    case 6:
      return uint64_t{1} << (*random)() % 64;
    default:
      return (*random)();
  }
}

// One change to the first `header` bytes.
void MutateOnce(std::string* bytes, size_t header, std::mt19937_64* random) {
  header = std::min(header, bytes->size());
  if (header < 16) return;
  const size_t at = (*random)() % (header - 8);
  const size_t length = 1 + (*random)() % 32;
  switch ((*random)() % 10) {
    case 0:
      (*bytes)[at] = static_cast<char>((*random)());
      return;
    case 1:
      (*bytes)[at] = static_cast<char>((*bytes)[at] ^ (1 << (*random)() % 8));
      return;
    case 2:
    case 3: {
      const auto number = static_cast<uint32_t>(Nasty(random, bytes->size()));
      bytes->replace(at, sizeof number, files::Raw(number));
      return;
    }
    case 4:
    case 5:
      bytes->replace(at, 8, files::Raw(Nasty(random, bytes->size())));
      return;
    case 6:
      bytes->erase(at, length);
      return;
    case 7:
      bytes->insert(at, bytes->substr((*random)() % header, length));
      return;
    case 8:
      bytes->replace(at, length, bytes->substr((*random)() % header, length));
      return;
    default:
      if ((*random)() % 8 == 0) bytes->resize((*random)() % bytes->size());
  }
}

// A message without its numbers and names: which check spoke.
std::string KindOf(const std::string& message) {
  std::string kind;
  bool quoted = false;
  for (const char c : message) {
    if (c == '\'') quoted = !quoted;
    if (!quoted && !std::isdigit(static_cast<unsigned char>(c))) kind += c;
  }
  return kind;
}

TEST(GgufMutations, HundredsOfThousandsOfHeadersDoNoHarm) {
  constexpr int kFiles = 400000;
  const std::vector<std::string> seeds = Seeds();
  for (const std::string& seed : seeds) ASSERT_TRUE(files::ParseGguf(files::BytesOf(seed)).ok());
  std::mt19937_64 random(20);
  std::set<std::string> kinds;
  int opened = 0;
  uint64_t sum = 0;
  for (int i = 0; i < kFiles; ++i) {
    std::string bytes = seeds[random() % seeds.size()];
    const size_t header = bytes.size() - 4096;
    for (size_t changes = 1 + random() % 3; changes > 0; --changes) {
      MutateOnce(&bytes, header, &random);
    }
    const std::vector<char> exact(bytes.begin(), bytes.end());  // so that sanitizers see its end
    const auto whole = std::as_bytes(std::span(exact));
    const uint64_t before = FailingNew::AllocatedBytes();
    const auto file = [&] {
      const LargeNewFails fails(
          std::max(bytes.size(), kSmallBytes));  // std::bad_alloc ends the test
      return files::ParseGguf(whole);
    }();
    ASSERT_LT(FailingNew::AllocatedBytes() - before, 3 * kSmallBytes + 3 * bytes.size()) << i;
    if (!file.ok()) {
      kinds.insert(KindOf(file.status().message()));
      ASSERT_LT(file.status().message().size(), 1000u) << i;
      continue;
    }
    ++opened;
    for (const files::TensorRecord& tensor : file->tensors) {
      ASSERT_GT(tensor.elements(), 0) << i;
      ASSERT_EQ(tensor.data.size(),
                numbers::StoredBytes(tensor.dtype, static_cast<size_t>(tensor.elements())));
      ASSERT_TRUE(tensor.data.data() >= whole.data() &&
                  tensor.data.data() + tensor.data.size() <= whole.data() + whole.size());
    }
    sum += files::ReadEverything(*file);
  }
  EXPECT_GT(opened, kFiles / 50);
  EXPECT_LT(opened, kFiles / 2);
  EXPECT_GT(kinds.size(), 30u) << sum;
  RecordProperty("opened", opened);
  RecordProperty("kinds", static_cast<int>(kinds.size()));
}

// What headers claim costs nothing: counts and lengths as large as the limits allow, without the
// bytes that they would take.
TEST(GgufMutations, ClaimsAllocateNothing) {
  const std::string rest(512, '\0');
  const std::string files[] = {
      "GGUF" + files::Raw(3) + files::Raw(uint64_t{files::kTensorsMax}) + files::Raw(uint64_t{0}) +
          rest,
      "GGUF" + files::Raw(3) + files::Raw(uint64_t{21}) + files::Raw(uint64_t{0}) + rest,
      "GGUF" + files::Raw(3) + files::Raw(uint64_t{0}) + files::Raw(uint64_t{files::kGgufKeysMax}) +
          rest,
      files::RawGguf({files::RawKey("a", files::GgufType::kArray,
                                    files::RawArray(files::GgufType::kString, 60, ""))},
                     {}, rest),
      files::RawGguf({files::RawKey("a", files::GgufType::kArray,
                                    files::RawArray(files::GgufType::kUint8, 1u << 30, ""))},
                     {}, rest),
      files::RawGguf({}, {files::RawTensor("a", {uint64_t{1} << 40}, 0, 0)}, rest),
      files::RawGguf({}, {files::RawText(std::string(300, 'x'))}, rest),
  };
  for (const std::string& bytes : files) {
    const uint64_t before = FailingNew::AllocatedBytes();
    ASSERT_FALSE(bytes.size() > 2000);
    const bool ok = files::ParseGguf(files::BytesOf(bytes)).ok();
    EXPECT_LT(FailingNew::AllocatedBytes() - before, 2048u);
    (void)ok;  // an array of 60 empty strings is whole
  }
}

}  // namespace
}  // namespace penstock::families
