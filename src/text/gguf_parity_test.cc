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

namespace penstock::text {
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
  ASSERT_EQ(a, b) << testing::PrintToString(text.substr(0, 400));
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
  if (std::string(GetParam().model) == "bert") {
    keys.Id("unknown", 1).Id("cls", 2).Id("seperator", 3).Id("mask", 4).Id("padding", 0);
    keys.Drop("add_bos_token").Drop("add_sep_token");
  }
  if (std::string(GetParam().model) == "t5") {
    keys.Id("unknown", 3).Id("mask", static_cast<uint32_t>((*json)->TokenToId("<mask>")));
    keys.Flag("add_space_prefix", true).Flag("remove_extra_whitespaces", true);
  }
  if (std::string(GetParam().pre) == "modern-bert") {
    keys.Id("mask", static_cast<uint32_t>((*json)->TokenToId("[MASK]")));
  }
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
  // Special tokens, some of which take the spaces before them.
  ExpectSame(**gguf, **json, "a <mask> b [MASK] c <|endoftext|> d <s> e [SEP]");
}

constexpr Golden kGoldens[] = {
    {"gpt2", "gpt2", "gpt-2"},
    {"llama3", "gpt2", "llama-bpe"},
    {"qwen2", "gpt2", "qwen2"},
    {"o200k", "gpt2", "gpt-4o"},
    {"falcon", "gpt2", "falcon"},
    {"starcoder", "gpt2", "smollm"},
    {"modernbert", "gpt2", "modern-bert"},
    {"bert", "bert", ""},
    {"xlm_roberta", "t5", ""},
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

// What Hugging Face's tokenizers of the same models give for texts that tell rules apart
// (tools/make_gguf_tokenizer_goldens.py). llama.cpp gives other ids for many of them: it has no
// normal forms, for one.
TEST_F(GgufVocabularies, GiveTheIdsOfTheModelsOwnTokenizers) {
  simdjson::dom::parser parser;
  const simdjson::dom::element golden =
      parser.load(PENSTOCK_GOLDEN_DIR "/tokenizers/gguf_vocabularies.json").value();
  size_t vocabularies = 0;
  for (const auto vocabulary : golden["ids"].get_object()) {
    SCOPED_TRACE(vocabulary.key);
    const std::string file = "ggml-vocab-" + std::string(vocabulary.key) + ".gguf";
    const auto tokenizer = Tokenizer::FromFile((root_ / "ggerganov__llama.cpp" / file).string());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
    size_t text = 0;
    for (const simdjson::dom::element wanted : vocabulary.value.get_array()) {
      Ids want, ids;
      for (const auto id : wanted.get_array()) want.push_back(static_cast<int32_t>(id.get_int64()));
      const std::string_view given = golden["texts"].at(text++);
      ASSERT_TRUE((*tokenizer)->EncodeText(std::string(given), &ids).ok());
      EXPECT_EQ(ids, want) << testing::PrintToString(std::string(given));
    }
    EXPECT_GE(text, 100u);
    ++vocabularies;
  }
  EXPECT_EQ(vocabularies, 8u);
}

// Texts of the test data in six languages, C headers of this machine, and Python's library: each
// 2,000 bytes, cut anywhere.
std::vector<std::string> Corpus(const fs::path& root) {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const char* language : {"en", "de", "es", "zh", "ru", "ar"}) {
    files.push_back(root / "google-deepmind__xquad" / (std::string("xquad.") + language + ".json"));
  }
  for (const char* folder : {"/usr/include", "/usr/lib/python3.11"}) {
    int taken = 0;
    for (const auto& entry : fs::directory_iterator(folder, ignored)) {
      const auto kind = entry.path().extension();
      if ((kind == ".h" || kind == ".py") && ++taken <= 12) files.push_back(entry.path());
    }
  }
  std::vector<std::string> texts;
  for (const fs::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    std::string text(60000, '\0');
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<size_t>(in.gcount()));
    for (size_t at = 0; at < text.size(); at += 2000) texts.push_back(text.substr(at, 2000));
  }
  return texts;
}

void ExpectSameOverCorpus(const Tokenizer& gguf, const Tokenizer& json, const fs::path& root) {
  const std::vector<std::string> texts = Corpus(root);
  ASSERT_GT(texts.size(), 150u);
  for (const std::string& text : texts) {
    ExpectSame(gguf, json, text);
    if (testing::Test::HasFailure()) return;
  }
  std::printf("%zu texts\n", texts.size());
}

// tokenizer.json of published models, and what a writer of GGUF files makes of them.
TEST_F(GgufVocabularies, GiveTheIdsOfTheTokenizerJsonOverACorpus) {
  const struct {
    const char* file;
    const char* model;
    const char* pre;
  } cases[] = {
      {"derived/tokenizers/llama3.2.tokenizer.json", "gpt2", "llama-bpe"},
      {"derived/tokenizers/qwen2.tokenizer.json", "gpt2", "qwen2"},
  };
  for (const auto& [file, model, pre] : cases) {
    SCOPED_TRACE(file);
    const std::string path = (root_ / file).string();
    const auto json = Tokenizer::FromFile(path);
    ASSERT_TRUE(json.ok()) << json.status().ToString();
    const auto gguf = KeysOfJson(path, model, pre).Load();
    ASSERT_TRUE(gguf.ok()) << gguf.status().ToString();
    ExpectSameOverCorpus(**gguf, **json, root_);
    if (HasFailure()) return;
  }
}

// bge-small has the vocabulary of BERT, which another file of the test data has as tokenizer.json.
TEST_F(GgufVocabularies, BertOverACorpus) {
  const auto gguf =
      Tokenizer::FromFile((root_ / "ggerganov__llama.cpp" / "ggml-vocab-bert-bge.gguf").string());
  ASSERT_TRUE(gguf.ok()) << gguf.status().ToString();
  const auto json = Tokenizer::FromFile(
      (root_ / "KingChen711__all-MiniLM-L6-v2-api" / "Xenova-all-MiniLM-L6-v2.tokenizer.json")
          .string());
  ASSERT_TRUE(json.ok()) << json.status().ToString();
  ExpectSameOverCorpus(**gguf, **json, root_);
  Encoding a, b;
  ASSERT_TRUE((*gguf)->EncodePair("a text", "and its pair", {}, &a).ok());
  ASSERT_TRUE((*json)->EncodePair("a text", "and its pair", {}, &b).ok());
  EXPECT_EQ(a.ids, b.ids);
  EXPECT_EQ(a.type_ids, b.type_ids);
}

// Ids, and the text of the ids, that Hugging Face's tokenizers gave for these vocabularies.
TEST_F(GgufVocabularies, GiveTheIdsOfHuggingFace) {
  const struct {
    const char* gguf;
    const char* name;
  } cases[] = {{"ggerganov__llama.cpp/ggml-vocab-llama-spm.gguf", "Xenova/llama-tokenizer"},
               {"ollama__ollama/llama-2-tiny-random.gguf", "Xenova/llama-tokenizer"},
               {"ggerganov__llama.cpp/ggml-vocab-gpt-2.gguf", "Xenova/gpt2"},
               {"ggerganov__llama.cpp/ggml-vocab-falcon.gguf", "tiiuae/falcon-7b"},
               {"ggerganov__llama.cpp/ggml-vocab-deepseek-coder.gguf",
                "Xenova/deepseek-coder-1.3b-instruct"}};
  simdjson::dom::parser parser;
  const auto vectors =
      parser.load((root_ / "huggingface__transformers.js" / "tokenizer_vectors.json").string())
          .value();
  for (const auto& [gguf, name] : cases) {
    SCOPED_TRACE(name);
    const auto tokenizer = Tokenizer::FromFile((root_ / gguf).string());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
    size_t checked = 0;
    for (const auto& [title, test] : vectors[name]["cases"].get_object()) {
      SCOPED_TRACE(title);
      Ids wanted;
      for (const simdjson::dom::element id : test["ids"].get_array()) {
        wanted.push_back(static_cast<int32_t>(id.get_int64().value()));
      }
      Encoding encoding;
      const std::string text(test["text"].get_string().value());
      ASSERT_TRUE((*tokenizer)->Encode(text, {}, &encoding).ok());
      EXPECT_EQ(encoding.ids, wanted) << text;
      if (std::string(name) == "Xenova/llama-tokenizer") {
        EXPECT_EQ((*tokenizer)->Decode(wanted, false), test["decoded"].get_string().value());
      }
      ++checked;
    }
    EXPECT_GE(checked, 20u);
  }
}

// A model's story, and the ids it wrote.
TEST_F(GgufVocabularies, AStory) {
  const auto tokenizer =
      Tokenizer::FromFile((root_ / "vespa-engine__vespa" / "tinyllm.gguf").string());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  simdjson::dom::parser parser;
  const auto golden =
      parser.load((root_ / "derived" / "stories260K_hf" / "golden.json").string()).value();
  Ids ids;
  for (const simdjson::dom::element id : golden["ids"].get_array()) {
    ids.push_back(static_cast<int32_t>(id.get_int64().value()));
  }
  const std::string text(golden["text"].get_string().value());
  ASSERT_TRUE(text.starts_with(" Once upon a time"));
  EXPECT_EQ(" " + (*tokenizer)->Decode(ids, true), text);
  EXPECT_EQ(" " + StreamAll(**tokenizer, ids), text);
  Encoding encoding;
  ASSERT_TRUE((*tokenizer)->Encode(text.substr(1), {}, &encoding).ok());
  EXPECT_EQ(encoding.ids, ids);
}

}  // namespace
}  // namespace penstock::text
