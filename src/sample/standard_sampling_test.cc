#include "sample/standard_sampling.h"

#include <gtest/gtest.h>

namespace penstock::sample {
namespace {

GenerationDefaults Read(const char* text) {
  auto read = GenerationDefaults::FromJson(text, 100);
  EXPECT_TRUE(read.ok()) << read.status().ToString();
  return read.ok() ? *read : GenerationDefaults();
}

TEST(StandardSampling, AModelIsKnownByItsTemplate) {
  const GenerationDefaults known = StandardSampling(
      "{% if x %}{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by "
      "Hugging Face<|im_end|>\n' }}{% endif %}");
  EXPECT_EQ(known.temperature, 0.2f);
  EXPECT_EQ(known.top_p, 0.9f);
  EXPECT_FALSE(known.top_k || known.min_p);
  EXPECT_EQ(known.max_new_tokens, 512);
}

TEST(StandardSampling, AnyOtherModelKeepsToWhatIsProbable) {
  for (const char* text : {"", "{{ messages[0].content }}", "named SmolLM"}) {
    const GenerationDefaults other = StandardSampling(text);
    EXPECT_EQ(other.temperature, 0.8f);
    EXPECT_EQ(other.top_k, 40);
    EXPECT_EQ(other.top_p, 0.95f);
    EXPECT_EQ(other.min_p, 0.05f);
    EXPECT_EQ(other.max_new_tokens, 4096);
  }
}

TEST(StandardSampling, FilesRecommendOrTheyDoNot) {
  for (const char* text : {R"({"temperature": 0.6})", R"({"top_k": 20})", R"({"top_p": 0.9})",
                           R"({"min_p": 0.1})", R"({"do_sample": false})"}) {
    EXPECT_TRUE(RecommendsSampling(Read(text))) << text;
  }
  for (const char* text : {"{}", R"({"eos_token_id": 2})", R"({"do_sample": true})",
                           R"({"repetition_penalty": 1.1, "max_new_tokens": 9})"}) {
    EXPECT_FALSE(RecommendsSampling(Read(text))) << text;
  }
}

TEST(StandardSampling, FilesAreCompleted) {
  GenerationDefaults files = Read(R"({"temperature": 0.6, "max_new_tokens": 9})");
  CompleteDefaults("", &files);
  EXPECT_EQ(files.temperature, 0.6f);
  EXPECT_FALSE(files.top_k || files.top_p || files.min_p) << "makers who recommend are taken whole";
  EXPECT_EQ(files.max_new_tokens, 9);

  files = Read(R"({"temperature": 0.6})");
  CompleteDefaults("", &files);
  EXPECT_EQ(files.max_new_tokens, 4096);

  files = Read(R"({"do_sample": true, "repetition_penalty": 1.1, "max_new_tokens": 9})");
  CompleteDefaults("", &files);
  EXPECT_EQ(files.temperature, 0.8f);
  EXPECT_EQ(files.top_k, 40);
  EXPECT_EQ(files.repetition_penalty, 1.1f);
  EXPECT_EQ(files.max_new_tokens, 9);

  files = Read(R"({"do_sample": false})");
  CompleteDefaults("", &files);
  SamplingOptions options;
  files.ApplyTo(&options);
  EXPECT_TRUE(options.greedy());
}

TEST(StandardSampling, WhatIsGivenGoesBeforeTheModels) {
  GenerationDefaults model = Read(R"({"do_sample": false, "top_k": 20, "top_p": 0.9,
                                      "repetition_penalty": 1.1, "max_new_tokens": 7})");
  GenerationDefaults given;
  given.top_k = 3;
  OverrideDefaults(given, &model);
  SamplingOptions options;
  model.ApplyTo(&options);
  EXPECT_TRUE(options.greedy());
  EXPECT_EQ(options.top_k, 3);
  EXPECT_EQ(options.top_p, 0.9f);
  EXPECT_EQ(options.repetition_penalty, 1.1f);
  EXPECT_EQ(options.max_tokens, 7);

  given = GenerationDefaults();
  given.temperature = 0.7f;
  given.top_p = 0.5f;
  given.min_p = 0.2f;
  given.repetition_penalty = 1.3f;
  given.max_new_tokens = 8;
  OverrideDefaults(given, &model);
  model.ApplyTo(&options);
  EXPECT_EQ(options.temperature, 0.7f) << "though the file says do_sample false";
  EXPECT_EQ(options.top_k, 3);
  EXPECT_EQ(options.top_p, 0.5f);
  EXPECT_EQ(options.min_p, 0.2f);
  EXPECT_EQ(options.repetition_penalty, 1.3f);
  EXPECT_EQ(options.max_tokens, 8);
  given.max_new_tokens = 0;
  OverrideDefaults(given, &model);
  EXPECT_FALSE(model.max_new_tokens);
}

}  // namespace
}  // namespace penstock::sample
