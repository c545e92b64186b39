#include "client/text_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

namespace penstock::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(TextClient, Asks) {
  api::RerankRequest rerank;
  rerank.query = "q";
  rerank.documents = {"a", "b", "c"};
  EXPECT_EQ(RerankBody(rerank, 1, 2), R"({"query":"q","documents":["b","c"]})");
  rerank.model = "m";
  rerank.top_n = 3;
  rerank.raw_scores = true;
  EXPECT_EQ(RerankBody(rerank, 0, 1),
            R"({"model":"m","query":"q","top_n":3,"raw_scores":true,"documents":["a"]})");
  api::ClassifyRequest classify;
  classify.inputs = {{"a", std::nullopt}, {"b", "c"}};
  EXPECT_EQ(ClassifyBody(classify, 0, 2), R"({"input":["a",["b","c"]]})");
  api::TokenizeRequest tokenize;
  tokenize.inputs = {"a"};
  tokenize.prompt_name = "query";
  EXPECT_EQ(TokenizeBody(tokenize, 0, 1),
            R"({"add_special_tokens":true,"prompt_name":"query","inputs":["a"]})");
}

TEST(TextClient, ReadsRanks) {
  const auto answer = ParseRerankAnswer(
      R"({"results":[{"index":1,"relevance_score":0.6116013},{"index":0,"relevance_score":-2}],)"
      R"("usage":{"prompt_tokens":9},"truncated":{"inputs":1,"tokens":3,"unread_bytes":4}})",
      3);
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  ASSERT_EQ(answer->items.size(), 2);
  EXPECT_EQ(answer->items[0].index, 1);
  EXPECT_EQ(answer->items[0].score, 0.6116013f);
  EXPECT_EQ(answer->items[1].score, -2);
  EXPECT_EQ(answer->usage.prompt_tokens, 9);
  EXPECT_EQ(answer->truncation.inputs, 1);
  EXPECT_EQ(answer->truncation.unread_bytes, 4);
}

TEST(TextClient, ReadsLabelsAndTokens) {
  const auto labels = ParseClassifyAnswer(
      R"({"data":[{"predictions":[{"label":"b","score":0.75},{"label":"a","score":0.25}]},)"
      R"({"index":1,"predictions":[{"label":"a","score":1}]}]})",
      2);
  ASSERT_TRUE(labels.ok()) << labels.status().ToString();
  EXPECT_THAT(labels->labels, ElementsAre("b", "a"));
  EXPECT_EQ(labels->inputs[1][0].id, 1);
  EXPECT_EQ(labels->inputs[0][0].score, 0.75f);
  const auto tokens =
      ParseTokenizeAnswer(R"([[{"id":101,"text":"[CLS]","special":true,"start":null,"stop":null},)"
                          R"({"id":7,"text":"a","special":false,"start":2,"stop":3}],[]])",
                          2);
  ASSERT_TRUE(tokens.ok()) << tokens.status().ToString();
  ASSERT_EQ(tokens->inputs[0].size(), 2);
  EXPECT_TRUE(tokens->inputs[0][0].special);
  EXPECT_EQ(tokens->inputs[0][0].offset.end, 0);
  EXPECT_EQ(tokens->inputs[0][1].text, "a");
  EXPECT_EQ(tokens->inputs[0][1].offset.begin, 2);
}

TEST(TextClient, RefusesWhatItCannotTrust) {
  for (const char* body :
       {"", "[]", "{}", "3", R"({"results":1})", R"({"results":[1]})",
        R"({"results":[{"index":0}]})", R"({"results":[{"relevance_score":1}]})",
        R"({"results":[{"index":-1,"relevance_score":1}]})",
        R"({"results":[{"index":1,"relevance_score":1}]})",
        R"({"results":[{"index":0,"relevance_score":"1"}]})",
        R"({"results":[{"index":0,"relevance_score":1e39}]})",
        R"({"results":[{"index":0,"relevance_score":1},{"index":0,"relevance_score":1}]})"}) {
    EXPECT_FALSE(ParseRerankAnswer(body, 1).ok()) << body;
  }
  for (const char* body :
       {"", "[]", "{}", R"({"data":[]})", R"({"data":[1]})", R"({"data":[{"predictions":3}]})",
        R"({"data":[{"predictions":[1]}]})", R"({"data":[{"predictions":[{"label":"a"}]}]})",
        R"({"data":[{"index":1,"predictions":[]}]})",
        R"({"data":[{"predictions":[]},{"predictions":[]}]})"}) {
    EXPECT_FALSE(ParseClassifyAnswer(body, 1).ok()) << body;
  }
  for (const char* body : {"", "[]", "{}", "[1]", "[[1]]", R"([[{"id":1,"text":"a"}]])", "[[],[]]",
                           R"([[{"id":-1,"text":"a","special":false}]])",
                           R"([[{"id":1,"text":"a","special":false,"start":-1}]])",
                           R"([[{"id":1,"text":"a","special":false,"stop":4294967296}]])"}) {
    EXPECT_FALSE(ParseTokenizeAnswer(body, 1).ok()) << body;
  }
}

TEST(TextClient, CutAndChangedAnswersAreErrorsOrAnswers) {
  const std::string answers[] = {
      R"({"results":[{"index":0,"relevance_score":0.5}],"usage":{"prompt_tokens":9}})",
      R"({"data":[{"index":0,"predictions":[{"label":"b","score":0.75}]}],"truncated":{"inputs":1}})",
      R"([[{"id":7,"text":"a","special":false,"start":2,"stop":3}]])"};
  const auto parse = [](const std::string& body) {
    return std::array{ParseRerankAnswer(body, 1).ok(), ParseClassifyAnswer(body, 1).ok(),
                      ParseTokenizeAnswer(body, 1).ok()};
  };
  for (const std::string& answer : answers) {
    for (size_t at = 0; at < answer.size(); ++at) {
      EXPECT_EQ(parse(answer.substr(0, at)), (std::array{false, false, false})) << at;
      for (const char c : {'0', '-', '"', '[', '}', 'e', '\0'}) {
        std::string changed = answer;
        changed[at] = c;
        const auto taken = parse(changed);
        EXPECT_LE(taken[0] + taken[1] + taken[2], 1) << changed;
      }
    }
  }
}

TEST(TextClient, NamesAServerThatIsNotThere) {
  TextClient client({.url = "127.0.0.1:1/", .attempts_max = 2, .backoff_ms = 1});
  api::RerankRequest request;
  request.documents = {"a"};
  const auto answer = client.Rerank(request);
  EXPECT_EQ(answer.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(answer.status().message(), HasSubstr("127.0.0.1:1/v1/rerank"));
  EXPECT_EQ(client.server().retries(), 1);
  client.server().Stop();
  EXPECT_EQ(client.Rerank(request).status().code(), StatusCode::kCancelled);
}

}  // namespace
}  // namespace penstock::client
