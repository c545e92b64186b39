#include "hub/file_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::hub {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

RepositoryListing ListOf(const std::vector<std::string>& files) {
  RepositoryListing listing{"0123", {}};
  for (const std::string& file : files) listing.files.emplace(file, 100);
  return listing;
}

Expected<FileChoice> Choose(const std::vector<std::string>& files, const std::string& reference,
                            bool tokenizer_only = false) {
  return ChooseFiles(ListOf(files), *ModelReference::ParseHub(reference), tokenizer_only);
}

std::string Refusal(const std::vector<std::string>& files, const std::string& reference) {
  const auto choice = Choose(files, reference);
  EXPECT_FALSE(choice.ok()) << reference;
  return choice.status().message();
}

TEST(QuantisationOf, FilesAsPublishersNameThem) {
  const std::pair<const char*, const char*> kNames[] = {
      {"SmolLM2-135M-Instruct.Q4_1.gguf", "Q4_1"},
      {"Qwen3-0.6B-Q8_0.gguf", "Q8_0"},
      {"qwen2.5-0.5b-instruct-q4_k_m.gguf", "Q4_K_M"},
      {"ggml-model-f16.gguf", "F16"},
      {"model-fp16.gguf", "F16"},
      {"x-BF16-00001-of-00002.gguf", "BF16"},
      {"gemma_3_1b_it_Q4_K_M.gguf", "Q4_K_M"},
      {"Qwen3-4B-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"},
      {"Qwen3-4B-IQ3_XXS.gguf", "IQ3_XXS"},
      {"x.i1-Q5_K_S.gguf", "Q5_K_S"},
      {"gpt-oss-20b-mxfp4.gguf", "MXFP4"},
      {"Q8_0/model-00001-of-00002.gguf", "Q8_0"},
      {"Q8_0/model-Q4_0.gguf", "Q4_0"},
      {"x-Q4_K_M-imat.gguf", "Q4_K_M"},
      {"model.gguf", ""},
      {"Qwen2-7B.gguf", ""},
      {"F1600.gguf", ""},
      {"q.gguf", ""},
      {"", ""},
  };
  for (const auto& [file, quantisation] : kNames) {
    EXPECT_EQ(QuantisationOf(file), quantisation) << file;
  }
}

TEST(ChooseFiles, OnlyTheQuantisationAskedFor) {
  const std::vector<std::string> files = {"README.md",    "x-Q8_0.gguf",   "x-Q4_K_M.gguf",
                                          "x-F16.gguf",   "x-IQ2_XS.gguf", "mmproj-x-Q4_K_M.gguf",
                                          "imatrix.gguf", "config.json"};
  const auto by_default = *Choose(files, "o/n");
  EXPECT_EQ(by_default.format, ModelFormat::kGguf);
  EXPECT_THAT(by_default.files, ElementsAre("x-Q4_K_M.gguf"));
  EXPECT_THAT(Choose(files, "o/n:q8_0")->files, ElementsAre("x-Q8_0.gguf"));
  EXPECT_THAT(Choose(files, "o/n/x-F16.gguf")->files, ElementsAre("x-F16.gguf"));
  EXPECT_EQ(Choose(files, "o/n/x-F16.gguf")->quantisation, "F16");
  EXPECT_EQ(Refusal(files, "o/n:Q9"),
            "quantisation 'Q9' is not there; o/n has: Q4_K_M, Q8_0, F16, IQ2_XS");
  EXPECT_THAT(Refusal(files, "o/n:IQ2_XS"),
              HasSubstr("Penstock does not read quantisation IQ2_XS"));
  EXPECT_THAT(Refusal(files, "o/n/y.gguf"), HasSubstr("file 'y.gguf' is not there; o/n has: x-Q4"));
  EXPECT_THAT(Refusal(files, "o/n/mmproj-x-Q4_K_M.gguf"), HasSubstr("is not a model by itself"));
}

TEST(ChooseFiles, TheOrderWhereNoneIsNamed) {
  std::vector<std::string> files;
  for (const std::string_view quantisation : QuantisationOrder()) {
    files.insert(files.begin(), "x-" + std::string(quantisation) + ".gguf");
  }
  for (const std::string_view quantisation : QuantisationOrder()) {
    EXPECT_EQ(Choose(files, "o/n")->quantisation, quantisation);
    files.pop_back();
  }
  EXPECT_THAT(Choose({"model.gguf"}, "o/n")->files, ElementsAre("model.gguf"));
  EXPECT_THAT(Refusal({"a.gguf", "b.gguf"}, "o/n"), HasSubstr("o/n has: a.gguf, b.gguf; none"));
  EXPECT_THAT(Refusal({"a-IQ1_S.gguf"}, "o/n"), HasSubstr("does not read quantisation IQ1_S"));
}

TEST(ChooseFiles, SplitFilesComeWhole) {
  const std::vector<std::string> files = {"Q8_0/x-Q8_0-00002-of-00002.gguf",
                                          "Q8_0/x-Q8_0-00001-of-00002.gguf", "x-Q4_0.gguf",
                                          "y-F16-00001-of-00003.gguf"};
  EXPECT_THAT(Choose(files, "o/n:Q8_0")->files,
              ElementsAre("Q8_0/x-Q8_0-00001-of-00002.gguf", "Q8_0/x-Q8_0-00002-of-00002.gguf"));
  EXPECT_THAT(Choose(files, "o/n/Q8_0/x-Q8_0-00002-of-00002.gguf")->files.front(),
              "Q8_0/x-Q8_0-00001-of-00002.gguf");
  EXPECT_THAT(Refusal(files, "o/n:F16"), HasSubstr("2 parts are not there"));
}

TEST(ChooseFiles, SeveralModelsOfOneQuantisation) {
  EXPECT_THAT(Refusal({"a-Q8_0.gguf", "b-Q8_0.gguf"}, "o/n:Q8_0"),
              HasSubstr("o/n has 2 models of Q8_0 (a-Q8_0.gguf, b-Q8_0.gguf); name the file: "
                        "o/n/a-Q8_0.gguf"));
  // The one at the top is meant.
  EXPECT_THAT(Choose({"a-Q8_0.gguf", "old/a-Q8_0.gguf"}, "o/n")->files, ElementsAre("a-Q8_0.gguf"));
  EXPECT_THAT(Choose({"a-UD-Q6_K.gguf"}, "o/n:Q6_K")->files, ElementsAre("a-UD-Q6_K.gguf"));
}

TEST(ChooseFiles, NeverBothFormats) {
  const std::vector<std::string> both = {"config.json",   "model.safetensors", "tokenizer.json",
                                         "x-Q4_K_M.gguf", "pytorch_model.bin", "onnx/model.onnx"};
  const auto folder = *Choose(both, "o/n");
  EXPECT_EQ(folder.format, ModelFormat::kSafetensors);
  EXPECT_THAT(folder.files, ElementsAre("config.json", "tokenizer.json", "model.safetensors"));
  EXPECT_THAT(Choose(both, "o/n:Q4_K_M")->files, ElementsAre("x-Q4_K_M.gguf"));
  EXPECT_THAT(Choose(both, "o/n", true)->files, ElementsAre("tokenizer.json"));
  EXPECT_THAT(Choose({"x-Q8_0.gguf"}, "o/n", true)->files, ElementsAre("x-Q8_0.gguf"));
  EXPECT_TRUE(Choose({"config.json", "model.safetensors.index.json"}, "o/n")->sharded);
  EXPECT_EQ(Choose({"pytorch_model.bin"}, "o/n").code(), StatusCode::kUnsupported);
  EXPECT_EQ(Choose({"README.md"}, "o/n", true).code(), StatusCode::kUnsupported);
}

TEST(RepositoryListing, PathsThatLeadOutAreRefused) {
  const auto parse = [](const std::string& name) {
    return RepositoryListing::Parse(R"({"sha":"ab","siblings":[{"rfilename":")" + name + "\"}]}");
  };
  for (const std::string name : {"a", "a/b.gguf", "a b", "...", "a/..b"}) {
    EXPECT_TRUE(parse(name).ok()) << name;
  }
  for (const std::string name :
       {std::string("../x"), std::string("/x"), std::string("a/../../x"), std::string(".."),
        std::string("."), std::string("a//b"), std::string("a/"), std::string(""),
        std::string("a\\\\b"), std::string("a\\u0000b"), std::string("a\\nb"),
        std::string(2000, 'a'), std::string(300, 'a')}) {
    EXPECT_THAT(parse(name).status().message(), HasSubstr("is not a path inside a repository"))
        << name;
  }
  EXPECT_EQ(parse("a/b")->ToJson(), R"({"sha":"ab","siblings":[{"rfilename":"a/b"}]})");
}

}  // namespace
}  // namespace penstock::hub
