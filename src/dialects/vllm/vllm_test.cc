#include "dialects/vllm/vllm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dialects/shared/fields.h"

namespace penstock::dialects {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <auto kParse>
auto From(std::string_view body) {
  return kParse(RequestBody::Parse(body)->object(), api::ServiceOptions());
}

TEST(Vllm, ScoresOneTextBesideOthersUnderEachPairOfNames) {
  for (const char* body : {R"({"model":"m","text_1":"a","text_2":["b","c"]})",
                           R"({"model":"m","text_1":["a"],"text_2":["b","c"]})",
                           R"({"model":"m","queries":"a","documents":["b","c"]})",
                           R"({"model":"m","data_1":"a","data_2":["b","c"]})"}) {
    const auto call = From<ParseScore>(body);
    ASSERT_TRUE(call.ok()) << body << call.status().ToString();
    EXPECT_EQ(call->model, "m");
    EXPECT_THAT(call->firsts, ElementsAre("a"));
    EXPECT_THAT(call->seconds, ElementsAre("b", "c"));
  }
  EXPECT_THAT(From<ParseScore>(R"({"text_1":"a","text_2":"b"})")->seconds, ElementsAre("b"));
  const auto field = [](std::string_view body) { return From<ParseScore>(body).status().field(); };
  EXPECT_EQ(field(R"({"text_1":["a","b"],"text_2":["c","d","e"]})"), "text_1");
  EXPECT_EQ(field(R"({"text_1":["a","b"],"text_2":"c"})"), "text_1");
  EXPECT_EQ(field(R"({"text_1":[],"text_2":["c"]})"), "text_1");
  EXPECT_EQ(field(R"({"text_1":"a"})"), "text_2");
  EXPECT_EQ(field(R"({"queries":"a"})"), "documents");
  EXPECT_EQ(field(R"({})"), "text_1");
  EXPECT_EQ(field(R"({"text_1":"a","text_2":["b",1]})"), "text_2[1]");
  EXPECT_EQ(field(R"({"text_1":"a","text_2":"b","chat_template":"x"})"), "chat_template");
  EXPECT_EQ(field(R"({"text_1":"a","text_2":"b","raw_scores":1})"), "raw_scores");
  EXPECT_EQ(From<ParseScore>(R"({"text_1":"a","text_2":"b","raw_scores":true})")->raw_scores, true);
  Scores scores{"m", {0.5f, 0.25f}, {}, {}};
  scores.usage.prompt_tokens = 7;
  EXPECT_EQ(
      PrintScores(scores, "i", 5),
      R"({"id":"i","object":"list","created":5,"model":"m","data":[)"
      R"({"index":0,"object":"score","score":0.5},{"index":1,"object":"score","score":0.25}],)"
      R"("usage":{"prompt_tokens":7,"total_tokens":7,"completion_tokens":0,)"
      R"("prompt_tokens_details":null},)"
      R"("truncated":{"inputs":0,"tokens":0,"unread_bytes":0}})");
}

TEST(Vllm, ScoresPairsOfTexts) {
  const auto parse = [] {
    return *From<ParseScore>(R"({"model":"m","data_1":["a","b"],"data_2":["c","d"]})");
  };
  const api::RerankRequest rerank = parse().ToRerank();
  EXPECT_EQ(rerank.raw_scores, std::nullopt);
  EXPECT_EQ(rerank.model, "m");
  EXPECT_EQ(rerank.query, "");
  EXPECT_THAT(rerank.queries, ElementsAre("a", "b"));
  EXPECT_THAT(rerank.documents, ElementsAre("c", "d"));
  const api::SimilarityRequest similarity = parse().ToSimilarity();
  EXPECT_THAT(similarity.sources, ElementsAre("a", "b"));
  EXPECT_THAT(similarity.sentences, ElementsAre("c", "d"));
  const auto one = [] { return *From<ParseScore>(R"({"text_1":["a"],"text_2":["c"]})"); };
  EXPECT_EQ(one().ToRerank().query, "a");
  EXPECT_TRUE(one().ToRerank().queries.empty());
  EXPECT_EQ(one().ToSimilarity().source, "a");
  EXPECT_TRUE(one().ToSimilarity().sources.empty());
}

TEST(Vllm, PoolingGivesWhatTheTaskSays) {
  const auto call = From<ParsePooling>(R"({"input":["a",{"text":"b"}],"task":"token_embed"})");
  ASSERT_TRUE(call.ok()) << call.status().ToString();
  EXPECT_EQ(call->task, PoolingTask::kTokenEmbed);
  EXPECT_EQ(call->request.inputs.size(), 2u);
  EXPECT_EQ(From<ParsePooling>(R"({"input":"a"})")->task, std::nullopt);
  EXPECT_TRUE(From<ParsePooling>(R"({"input":"a","encoding_format":"base64"})")->base64);
  EXPECT_EQ(PoolingTaskOf("embedding"), PoolingTask::kEmbed);
  EXPECT_EQ(PoolingTaskOf("classification"), PoolingTask::kClassify);
  EXPECT_EQ(PoolingTaskOf("reranking"), PoolingTask::kClassify);
  const auto field = [](std::string_view body) {
    return From<ParsePooling>(body).status().field();
  };
  EXPECT_EQ(field(R"({"input":"a","task":"plugin"})"), "task");
  EXPECT_EQ(field(R"({"input":"a","encoding_format":"bytes"})"), "encoding_format");
  EXPECT_EQ(field(R"({"messages":[{"role":"user","content":"a"}]})"), "messages");
  EXPECT_EQ(field(R"({})"), "input");
  auto classify = ToClassify(From<ParsePooling>(R"({"model":"m","input":["a"]})")->request);
  ASSERT_TRUE(classify.ok());
  EXPECT_EQ(classify->model, "m");
  EXPECT_EQ(classify->inputs.at(0).first, "a");
  EXPECT_EQ(ToClassify(From<ParsePooling>(R"({"input":[1,2]})")->request).status().field(),
            "input");
}

TEST(Vllm, PooledDataNestAsDeepAsTheTask) {
  const api::EmbedResponse vectors{"m", 2, {1, 0, 0, 1}, {}, {}};
  EXPECT_THAT(PrintPooled(vectors, "i", 5, false),
              HasSubstr(R"("data":[{"index":0,"object":"pooling","data":[1.0,0.0]},)"
                        R"({"index":1,"object":"pooling","data":[0.0,1.0]}])"));
  EXPECT_THAT(PrintPooled(vectors, "i", 5, true), HasSubstr(R"("data":"AACAPwAAAAA=")"));
  const api::EmbedAllResponse tokens{"m", 1, {2, 1}, {1, 2, 3}, {}, {}};
  EXPECT_THAT(PrintPooled(tokens, "i", 5),
              HasSubstr(R"("data":[{"index":0,"object":"pooling","data":[[1.0],[2.0]]},)"
                        R"({"index":1,"object":"pooling","data":[[3.0]]}])"));
  api::ClassifyResponse labels;
  labels.labels = {"no", "yes"};
  labels.inputs = {{{1, 0.75f}, {0, 0.25f}}};  // best first
  EXPECT_THAT(PrintPooled(labels, "i", 5), HasSubstr(R"("data":[0.25,0.75])"));
}

TEST(Vllm, Tokenizes) {
  const auto parse = [](std::string_view body) {
    return ParseVllmTokenize(RequestBody::Parse(body)->object());
  };
  const auto call = parse(R"({"prompt":"a","return_token_strs":true})");
  ASSERT_TRUE(call.ok());
  EXPECT_TRUE(call->texts && call->request.add_special_tokens);
  EXPECT_EQ(parse(R"({"messages":[{"role":"user","content":"a"}]})").status().field(), "messages");
  api::TokenizeResponse response;
  response.inputs.resize(1);
  response.inputs[0].resize(2);
  response.inputs[0][0] = {5, "a", false, {}};
  response.inputs[0][1] = {6, "b", false, {}};
  EXPECT_EQ(PrintVllmTokens(response, 72, false),
            R"({"count":2,"max_model_len":72,"tokens":[5,6],"token_strs":null})");
  EXPECT_THAT(PrintVllmTokens(response, 72, true), HasSubstr(R"("token_strs":["a","b"])"));
}

}  // namespace
}  // namespace penstock::dialects
