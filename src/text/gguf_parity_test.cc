// GGUF tokenizers against others of the same vocabulary: the goldens as GGUF files, and
// vocabularies with ids that other implementations gave.
#include <gtest/gtest.h>
#include <simdjson.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>

#include "text/gguf_pre_kinds.h"
#include "text/gguf_test_tokens.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int32_t>;

std::string ReadFile(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string StreamAll(const Tokenizer& tokenizer, const Ids& ids) {
  const auto stream = tokenizer.NewStreamDecoder(true);
  std::string text;
  for (const int32_t id : ids) text += stream->Push(id);
  return text + stream->Finish();
}

// Equal ids, and equal texts of them.
void ExpectSame(const Tokenizer& gguf, const Tokenizer& json, const std::string& text) {
  Ids a, b;
  const Status status = gguf.EncodeText(text, &a);
  ASSERT_TRUE(status.ok()) << status.ToString();
  ASSERT_TRUE(json.EncodeText(text, &b).ok());
  ASSERT_EQ(a, b) << text.substr(0, 400);
  ASSERT_EQ(gguf.Decode(a, false), json.Decode(a, false));
  ASSERT_EQ(gguf.Decode(a, true), json.Decode(a, true));
  ASSERT_EQ(StreamAll(gguf, a), StreamAll(json, a));
}

struct Golden {
  const char* name;
  const char* model;
  const char* pre;
};

class GgufGolden : public testing::TestWithParam<Golden> {};

TEST_P(GgufGolden, GivesTheIdsOfTheTokenizerJson) {
  const std::string base = std::string(PENSTOCK_GOLDEN_DIR "/tokenizers/") + GetParam().name;
  const auto json = Tokenizer::FromFile(base + ".tokenizer.json");
  ASSERT_TRUE(json.ok());
  GgufTokenizerKeys keys = KeysOfJson(base + ".tokenizer.json", GetParam().model, GetParam().pre);
  if (std::string(GetParam().model) == "bert")
    keys.Id("unknown", 1).Id("cls", 2).Id("seperator", 3);
  const auto gguf = keys.Load();
  ASSERT_TRUE(gguf.ok()) << gguf.status().ToString();
  EXPECT_EQ((*gguf)->vocab_size(), (*json)->vocab_size());
  EXPECT_EQ((*gguf)->model_type(), (*json)->model_type());
  for (int32_t id = 0; id < (*json)->vocab_size(); ++id) {
    EXPECT_EQ((*gguf)->IdToToken(id), (*json)->IdToToken(id));
    EXPECT_EQ((*gguf)->IsSpecial(id), (*json)->IsSpecial(id)) << (*json)->IdToToken(id);
  }
  simdjson::dom::parser parser;
  size_t texts = 0;
  const auto cases = parser.load(base + ".cases.json").value();
  for (const simdjson::dom::element entry : cases["cases"].get_array()) {
    for (const char* side : {"a", "b"}) {
      std::string_view text;
      if (entry[side].get(text) != simdjson::SUCCESS) continue;
      ExpectSame(**gguf, **json, std::string(text));
      if (HasFailure()) return;
      ++texts;
    }
  }
  EXPECT_GE(texts, 150u);
}

constexpr Golden kGoldens[] = {
    {"gpt2", "gpt2", "gpt-2"},
    {"llama3", "gpt2", "llama-bpe"},
    {"qwen2", "gpt2", "qwen2"},
    {"o200k", "gpt2", "gpt-4o"},
    {"falcon", "gpt2", "falcon"},
    {"starcoder", "gpt2", "smollm"},
    {"modernbert", "gpt2", "modern-bert"},
};
INSTANTIATE_TEST_SUITE_P(All, GgufGolden, testing::ValuesIn(kGoldens),
                         [](const auto& test) { return test.param.name; });

// --- vocabularies of other implementations
// ---------------------------------------------------------------

class GgufVocabularies : public testing::Test {
 protected:
  void SetUp() override {
    const char* data = std::getenv("PENSTOCK_TESTDATA");
    root_ = data != nullptr ? data : PENSTOCK_SOURCE_DIR "/../shared/testdata";
    if (!fs::exists(root_)) {
      GTEST_SKIP() << "NO TEST DATA at " << root_ << ": set PENSTOCK_TESTDATA";
    }
  }
  fs::path root_;
};

// Texts between lines "__ggml_vocab_test__", and a line of ids for each.
void CheckAgainstLines(const Tokenizer& tokenizer, const fs::path& gguf) {
  const std::string mark = "\n__ggml_vocab_test__\n";
  const std::string texts = ReadFile(gguf.string() + ".inp");
  std::ifstream lines(gguf.string() + ".out");
  size_t checked = 0;
  for (size_t at = 0; at < texts.size(); ++checked) {
    const size_t end = std::min(texts.find(mark, at), texts.size());
    const std::string text = texts.substr(at, end - at);
    at = end + mark.size();
    std::string line;
    std::getline(lines, line);
    std::istringstream numbers(line);
    Ids wanted, ids;
    for (int32_t id; numbers >> id;) wanted.push_back(id);
    ASSERT_TRUE(tokenizer.EncodeText(text, &ids).ok());
    EXPECT_EQ(ids, wanted) << "text " << checked << ": " << text;
  }
  EXPECT_GE(checked, 40u);
}

TEST_F(GgufVocabularies, GiveTheIdsThatCameWithThem) {
  int checked = 0;
  for (const auto& entry : fs::directory_iterator(root_ / "ggerganov__llama.cpp")) {
    if (entry.path().extension() != ".gguf") continue;
    SCOPED_TRACE(entry.path().filename());
    const auto tokenizer = Tokenizer::FromFile(entry.path().string());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
    if (!fs::exists(entry.path().string() + ".inp")) continue;
    CheckAgainstLines(**tokenizer, entry.path());
    ++checked;
  }
  EXPECT_EQ(checked, 10);
}

}  // namespace
}  // namespace penstock
