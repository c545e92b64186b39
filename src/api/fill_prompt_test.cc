#include "api/fill_prompt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace penstock::api {
namespace {

using testing::ElementsAre;

// Letters a to h are tokens 0 to 7; then these, which are special.
std::unique_ptr<text::Tokenizer> TokenizerWith(const std::vector<std::string>& special,
                                               bool begins = false) {
  std::string json = R"({"version":"1.0","added_tokens":[)";
  int id = 8;
  for (const std::string& token : special) {
    json += id > 8 ? "," : "";
    json += R"({"id":)" + std::to_string(id++) + R"(,"content":")" + token +
            R"(","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,)"
            R"("special":true})";
  }
  json += R"(],"normalizer":null,"pre_tokenizer":null,"post_processor":)";
  json += begins ? R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":")" +
                       special[0] + R"(","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],)" +
                       R"("pair":[],"special_tokens":{")" + special[0] + R"(":{"id":")" +
                       special[0] + R"(","ids":[8],"tokens":[")" + special[0] + R"("]}}})"
                 : "null";
  json += R"(,"decoder":{"type":"Fuse"},"model":{"type":"BPE","merges":[],"vocab":{)";
  for (char letter = 'a'; letter <= 'h'; ++letter) {
    json +=
        std::string(letter > 'a' ? "," : "") + "\"" + letter + "\":" + std::to_string(letter - 'a');
  }
  auto made = text::Tokenizer::FromJson(json + "}}}");
  EXPECT_TRUE(made.ok()) << made.status().ToString();
  return *std::move(made);
}

std::vector<int32_t> Fill(const text::Tokenizer& tokenizer, const FillPrompt& prompt,
                          std::vector<int32_t>* stops) {
  auto ids = FillTokens(tokenizer, prompt, {}, stops);
  EXPECT_TRUE(ids.ok()) << ids.status().ToString();
  return ids.ok() ? *std::move(ids) : std::vector<int32_t>();
}

TEST(FillPrompt, MarksOfQwen) {
  const auto tokenizer = TokenizerWith({"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>",
                                        "<|repo_name|>", "<|file_sep|>", "<|endoftext|>"});
  std::vector<int32_t> stops;
  EXPECT_THAT(Fill(*tokenizer, {"ab", "c", "d", {}}, &stops), ElementsAre(8, 0, 1, 9, 2, 10, 3));
  EXPECT_THAT(stops, ElementsAre(13, 12, 11));
  // This tokenizer knows neither a line break nor all letters: of "repository" it has the e, of
  // "file" f and e.
  EXPECT_THAT(Fill(*tokenizer, {"a", "", "", {{"e", "f"}}}, &stops),
              ElementsAre(11, 4, 12, 4, 5, 12, 5, 4, 8, 0, 9, 10));
}

TEST(FillPrompt, MarksOfOthers) {
  std::vector<int32_t> stops;
  EXPECT_THAT(Fill(*TokenizerWith({"<s>", "▁<PRE>", "▁<SUF>", "▁<MID>", "▁<EOT>"}, true),
                   {"a", "b", "", {}}, &stops),
              ElementsAre(8, 9, 0, 10, 1, 11));
  EXPECT_THAT(stops, ElementsAre(12));
  EXPECT_THAT(Fill(*TokenizerWith({"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"}),
                   {"a", "b", "", {}}, &stops),
              ElementsAre(8, 0, 9, 1, 10));
  // What is written follows the prefix.
  EXPECT_THAT(Fill(*TokenizerWith({"[PREFIX]", "[SUFFIX]"}), {"a", "b", "", {}}, &stops),
              ElementsAre(9, 1, 8, 0));
}

TEST(FillPrompt, WithoutMarksItIsRefused) {
  std::vector<int32_t> stops;
  const auto ids = FillTokens(*TokenizerWith({"<|fim_prefix|>"}), {"a", "b", "", {}}, {}, &stops);
  EXPECT_EQ(ids.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ids.status().field(), "suffix");
  EXPECT_EQ(FillBytes({"ab", "c", "d", {{"name", "text"}}}), 12u);
}

}  // namespace
}  // namespace penstock::api
