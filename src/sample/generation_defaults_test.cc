#include "sample/generation_defaults.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/temp_folder_test_util.h"

namespace penstock::sample {
namespace {

constexpr int32_t kVocabulary = 200000;
constexpr const char* kFile = R"({
  "bos_token_id": 151643, "pad_token_id": 151643, "do_sample": true,
  "eos_token_id": [151645, 151643, 151645], "repetition_penalty": 1.1, "temperature": 0.7,
  "top_p": 0.8, "top_k": 20, "min_p": 0.05, "max_new_tokens": 2048,
  "num_beams": 1, "stop_strings": ["<|end|>", "\n\n"], "max_length": 99, "suppress_tokens": [], "transformers_version": "4.37.0",
  "cache_implementation": "hybrid"
})";

TEST(GenerationDefaults, ReadsWhatTheFileSays) {
  const auto read = GenerationDefaults::FromJson(kFile, kVocabulary);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->eos_token_ids, (std::vector<int32_t>{151643, 151645}));
  EXPECT_EQ(read->bos_token_id, 151643);
  SamplingOptions options;
  options.seed = 3;
  read->ApplyTo(&options);
  EXPECT_EQ(options.temperature, 0.7f);
  EXPECT_EQ(options.top_p, 0.8f);
  EXPECT_EQ(options.top_k, 20);
  EXPECT_EQ(options.min_p, 0.05f);
  EXPECT_EQ(options.repetition_penalty, 1.1f);
  EXPECT_EQ(options.max_tokens, 2048);
  EXPECT_EQ(options.stop, (std::vector<std::string>{"<|end|>", "\n\n"}));
  EXPECT_EQ(options.seed, 3u);
  EXPECT_TRUE(options.Check(kVocabulary).ok());
}

TEST(GenerationDefaults, LeavesAloneWhatTheFileDoesNotSay) {
  const auto read = GenerationDefaults::FromJson(R"({"eos_token_id": 2, "top_k": null})", 10);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->eos_token_ids, std::vector<int32_t>{2});
  SamplingOptions options;
  options.temperature = 0.25f;
  options.top_k = 7;
  options.max_tokens = 11;
  read->ApplyTo(&options);
  EXPECT_EQ(options.temperature, 0.25f);
  EXPECT_EQ(options.top_k, 7);
  EXPECT_EQ(options.max_tokens, 11);
}

TEST(GenerationDefaults, WithoutDoSampleIsGreedy) {
  const auto read =
      GenerationDefaults::FromJson(R"({"do_sample": false, "temperature": 0.9})", kVocabulary);
  ASSERT_TRUE(read.ok());
  SamplingOptions options;
  read->ApplyTo(&options);
  EXPECT_TRUE(options.greedy());
}

TEST(GenerationDefaults, NamesWhatIsWrong) {
  struct Case {
    const char* text;
    StatusCode code;
    const char* field;
  };
  constexpr StatusCode kInvalid = StatusCode::kInvalidArgument;
  const Case cases[] = {
      {"[1]", kInvalid, ""},
      {"{", kInvalid, ""},
      {R"({"temperature": "hot"})", kInvalid, "temperature"},
      {R"({"temperature": 1e300})", kInvalid, "temperature"},
      {R"({"temperature": -1})", kInvalid, "temperature"},
      {R"({"top_p": 1.01})", kInvalid, "top_p"},
      {R"({"min_p": -0.1})", kInvalid, "min_p"},
      {R"({"top_k": 1.5})", kInvalid, "top_k"},
      {R"({"top_k": 3000000000})", kInvalid, "top_k"},
      {R"({"repetition_penalty": 0})", kInvalid, "repetition_penalty"},
      {R"({"max_new_tokens": 0})", kInvalid, "max_new_tokens"},
      {R"({"max_new_tokens": 100000000000000000000000})", kInvalid, "max_new_tokens"},
      {R"({"do_sample": 1})", kInvalid, "do_sample"},
      {R"({"eos_token_id": 200000})", kInvalid, "eos_token_id"},
      {R"({"eos_token_id": -1})", kInvalid, "eos_token_id"},
      {R"({"eos_token_id": "</s>"})", kInvalid, "eos_token_id"},
      {R"({"eos_token_id": [1, 200000]})", kInvalid, "eos_token_id[1]"},
      {R"({"eos_token_id": [1, [2]]})", kInvalid, "eos_token_id[1]"},
      {R"({"eos_token_id": [1, null]})", kInvalid, "eos_token_id[1]"},
      {R"({"bos_token_id": 200000})", kInvalid, "bos_token_id"},
      {R"({"pad_token_id": -2})", kInvalid, "pad_token_id"},
      {R"({"stop_strings": [1]})", kInvalid, "stop_strings[0]"},
      {R"({"stop_strings": ["a", ""]})", kInvalid, "stop_strings"},
      {R"({"stop_strings": ""})", kInvalid, "stop_strings"},
      {R"({"stop_strings": {}})", kInvalid, "stop_strings"},
      {R"({"num_beams": 4})", StatusCode::kUnsupported, "num_beams"},
      {R"({"suppress_tokens": [1]})", StatusCode::kUnsupported, "suppress_tokens"},
      {R"({"no_repeat_ngram_size": 3})", StatusCode::kUnsupported, "no_repeat_ngram_size"},
      {R"({"typical_p": 0.5})", StatusCode::kUnsupported, "typical_p"},
  };
  for (const Case& c : cases) {
    const auto read = GenerationDefaults::FromJson(c.text, kVocabulary);
    ASSERT_FALSE(read.ok()) << c.text;
    EXPECT_EQ(read.status().code(), c.code) << c.text;
    EXPECT_EQ(read.status().field(), c.field) << c.text << ": " << read.status().message();
    EXPECT_NE(read.status().message().find(c.field), std::string::npos);
  }
}

TEST(GenerationDefaults, BoundsSizes) {
  std::string ends = R"({"eos_token_id": [1)";
  for (size_t i = 1; i < kEosTokensMax; ++i) ends += ",1";
  EXPECT_TRUE(GenerationDefaults::FromJson(ends + "]}", kVocabulary).ok());
  EXPECT_FALSE(GenerationDefaults::FromJson(ends + ",1]}", kVocabulary).ok());
  const std::string large = std::string(kGenerationConfigBytesMax, ' ') + "{}";
  EXPECT_EQ(GenerationDefaults::FromJson(large, kVocabulary).status().code(),
            StatusCode::kPayloadTooLarge);
}

// Cut and changed at random places: an error or values that SamplingOptions::Check takes.
TEST(GenerationDefaults, SurvivesMutatedFiles) {
  std::mt19937 random(3);
  const std::string original = kFile;
  int read = 0, refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text =
        original.substr(0, random() % 8 == 0 ? random() % original.size() : original.size());
    for (uint32_t n = random() % 3; n > 0 && !text.empty(); --n) {
      text[random() % text.size()] = "0123456789-.eE[]{}\",: n\xFF"[random() % 24];
    }
    const auto defaults = GenerationDefaults::FromJson(text, kVocabulary);
    if (!defaults.ok()) {
      EXPECT_FALSE(defaults.status().message().empty());
      ++refused;
      continue;
    }
    ++read;
    SamplingOptions options;
    defaults->ApplyTo(&options);
    ASSERT_TRUE(options.Check(kVocabulary).ok()) << text;
    for (const int32_t id : defaults->eos_token_ids) ASSERT_LT(id, kVocabulary);
  }
  EXPECT_GT(read, 1000);
  EXPECT_GT(refused, 1000);
}

TEST(GenerationDefaults, FromFileNamesTheFile) {
  const TempFolder folder;
  const std::string path = folder.Write("generation_config.json", R"({"top_p": 2})");
  const auto wrong = GenerationDefaults::FromFile(path, kVocabulary);
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.status().message().find(path), std::string::npos);
  std::ofstream(path) << kFile;
  EXPECT_TRUE(GenerationDefaults::FromFile(path, kVocabulary).ok());
  std::filesystem::remove(path);
  EXPECT_EQ(GenerationDefaults::FromFile(path, kVocabulary).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace penstock::sample
