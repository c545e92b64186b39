#include "dialects/tei/tei.h"

#include <gtest/gtest.h>

#include "dialects/shared/fields.h"
#include "dialects/tgi/tgi.h"

namespace penstock::dialects {
namespace {

// Parses a body with one of the parsers of objects.
template <auto kParse>
auto From(std::string_view body) {
  return kParse(RequestBody::Parse(body)->object(), api::ServiceOptions());
}

TeiRootTask ChooseRoot(std::string_view body, std::string_view task) {
  return ChooseTeiRootTask(RequestBody::Parse(body)->object(), task);
}

TEST(Tei, Embed) {
  const auto request = From<ParseTeiEmbed>(
      R"({"inputs":["a","b"],"normalize":true,"truncate":true,"truncation_direction":"Left",)"
      R"("prompt_name":"query","dimensions":8})");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_EQ(request->inputs.size(), 2u);
  EXPECT_EQ(request->text.side, text::TruncationSide::kLeft);
  EXPECT_EQ(request->dimensions, 8);
  EXPECT_EQ(From<ParseTeiEmbed>(R"({"input":"a"})").status().field(), "inputs");
  api::EmbedResponse response;
  response.dimensions = 2;
  response.values = {1.5f, 2.0f, -0.25f, 0.0f};
  EXPECT_EQ(PrintTeiEmbed(response), "[[1.5,2.0],[-0.25,0.0]]");
  EXPECT_EQ(PrintTeiEmbed(api::EmbedResponse()), "[]");
}

TEST(Tei, ARequestToTheRootAsksForTextByFieldsOfTextAlone) {
  const auto asks = [](std::string_view body) {
    return AsksTgi(RequestBody::Parse(body)->object());
  };
  EXPECT_TRUE(asks(R"({"inputs":"a","parameters":{"max_new_tokens":5}})"));
  EXPECT_TRUE(asks(R"({"inputs":"a","stream":false})"));
  EXPECT_FALSE(asks(R"({"inputs":"a"})"));
  EXPECT_FALSE(asks(R"({"inputs":"a","parameters":{}})"));
  EXPECT_FALSE(asks(R"({"inputs":"a","parameters":{"top_k":5,"truncate":true}})"));
  EXPECT_FALSE(asks(R"({"inputs":"a","parameters":null,"stream":null})"));
}

TEST(Tei, EmbedAll) {
  api::EmbedAllResponse response;
  response.dimensions = 1;
  response.token_counts = {2, 0, 1};
  response.values = {1.0f, 2.0f, 3.0f};
  EXPECT_EQ(PrintTeiEmbedAll(response), "[[[1.0],[2.0]],[],[[3.0]]]");
}

TEST(Tei, Rerank) {
  const auto call = From<ParseTeiRerank>(
      R"({"query":"q","texts":["a","b"],"raw_scores":true,"return_text":true})");
  ASSERT_TRUE(call.ok());
  EXPECT_EQ(call->request.raw_scores, true);
  EXPECT_TRUE(call->return_text);
  EXPECT_EQ(From<ParseTeiRerank>(R"({"query":"q","texts":["a",{"text":"b"}]})").status().field(),
            "texts[1]");
  EXPECT_EQ(From<ParseTeiRerank>(R"({"query":"q","documents":["a"]})").status().field(), "texts");
  api::RerankResponse response;
  response.items = {{1, 0.5f}, {0, 0.25f}};
  EXPECT_EQ(PrintTeiRerank(response, nullptr),
            R"([{"index":1,"score":0.5},{"index":0,"score":0.25}])");
  EXPECT_EQ(PrintTeiRerank(response, &call->request.documents),
            R"([{"index":1,"text":"b","score":0.5},{"index":0,"text":"a","score":0.25}])");
}

TEST(Tei, PredictShapes) {
  auto call = From<ParseTeiPredict>(R"({"inputs":"a"})");
  ASSERT_TRUE(call.ok());
  EXPECT_TRUE(call->single);
  call = From<ParseTeiPredict>(R"({"inputs":["a","b"]})");
  ASSERT_TRUE(call.ok());
  EXPECT_TRUE(call->single);
  ASSERT_EQ(call->request.inputs.size(), 1u);
  EXPECT_EQ(call->request.inputs[0].second, "b");
  call = From<ParseTeiPredict>(R"({"inputs":[["a"],["b","c"],"d"],"raw_scores":true})");
  ASSERT_TRUE(call.ok());
  EXPECT_FALSE(call->single);
  ASSERT_EQ(call->request.inputs.size(), 3u);
  EXPECT_EQ(call->request.inputs[1].second, "c");
  EXPECT_EQ(call->request.inputs[2].first, "d");
  EXPECT_TRUE(call->request.raw_scores);
  EXPECT_EQ(From<ParseTeiPredict>(R"({"inputs":["a","b","c"]})").status().field(), "inputs");
  EXPECT_EQ(From<ParseTeiPredict>(R"({"inputs":[["a","b","c"]]})").status().field(), "inputs[0]");
  EXPECT_EQ(From<ParseTeiPredict>(R"({"inputs":[["a"],[]]})").status().field(), "inputs[1]");
  EXPECT_EQ(From<ParseTeiPredict>(R"({"inputs":[["a"],3]})").status().field(), "inputs[1]");
  EXPECT_EQ(From<ParseTeiPredict>(R"({"inputs":7})").status().field(), "inputs");
}

TEST(Tei, PredictPrints) {
  api::ClassifyResponse response;
  response.labels = {"no", "yes"};
  response.inputs = {{{1, 0.75f}, {0, 0.25f}}};
  const std::string one = R"([{"score":0.75,"label":"yes"},{"score":0.25,"label":"no"}])";
  EXPECT_EQ(PrintTeiPredict(response, true), one);
  EXPECT_EQ(PrintTeiPredict(response, false), "[" + one + "]");
}

TEST(Tei, Similarity) {
  const auto request = From<ParseTeiSimilarity>(
      R"({"inputs":{"source_sentence":"s","sentences":["a","b"]},"parameters":{"truncate":true}})");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_EQ(request->source, "s");
  EXPECT_EQ(request->text.truncate, true);
  EXPECT_EQ(From<ParseTeiSimilarity>(R"({"inputs":"x"})").status().field(), "inputs");
  EXPECT_EQ(From<ParseTeiSimilarity>(R"({"inputs":{"sentences":[]}})").status().field(),
            "inputs.source_sentence");
  EXPECT_EQ(From<ParseTeiSimilarity>(
                R"({"inputs":{"source_sentence":"s","sentences":[]},"parameters":{"truncate":3}})")
                .status()
                .field(),
            "parameters.truncate");
  api::SimilarityResponse response;
  response.scores = {0.5f, 1.0f};
  EXPECT_EQ(PrintTeiSimilarity(response), "[0.5,1.0]");
}

TEST(Tei, IdsAreReadUpToTheLimit) {
  api::ServiceOptions limits;
  limits.input_bytes = 3;
  const auto status = [&limits](const char* json) {
    return ParseTeiDecode(*JsonDocument::Parse(json)->Object(), limits).status();
  };
  EXPECT_TRUE(status(R"({"ids":[1,2,3]})").ok());
  // The fourth is the end: what follows it is not looked at.
  EXPECT_EQ(status(R"({"ids":[1,2,3,4,"a"]})").code(), StatusCode::kPayloadTooLarge);
  EXPECT_EQ(status(R"({"ids":[[1,2,3],[1,2,3,4]]})").message(),
            "'ids[1]' has more than 3 ids, the limit (--max-input-bytes)");
}

TEST(Tei, TokenizeAndDecode) {
  EXPECT_EQ(From<ParseTeiTokenize>(R"({"inputs":"a"})")->inputs.size(), 1u);
  EXPECT_FALSE(
      From<ParseTeiTokenize>(R"({"inputs":["a"],"add_special_tokens":false})")->add_special_tokens);
  EXPECT_EQ(From<ParseTeiTokenize>(R"({"inputs":[1]})").status().field(), "inputs[0]");
  api::TokenizeResponse tokens;
  tokens.inputs = {{{101, "[CLS]", true, {0, 0}}, {7592, "hello", false, {0, 5}}}, {}};
  EXPECT_EQ(PrintTeiTokenize({"", {{{102, "[SEP]", true, {3, 8}}}}}),
            R"([[{"id":102,"text":"[SEP]","special":true,"start":3,"stop":8}]])");
  EXPECT_EQ(PrintTeiTokenize(tokens),
            R"([[{"id":101,"text":"[CLS]","special":true,"start":null,"stop":null},)"
            R"({"id":7592,"text":"hello","special":false,"start":0,"stop":5}],[]])");
  EXPECT_EQ(From<ParseTeiDecode>(R"({"ids":[1,2]})")->inputs.size(), 1u);
  const auto many = From<ParseTeiDecode>(R"({"ids":[[1,2],[]],"skip_special_tokens":false})");
  ASSERT_TRUE(many.ok());
  EXPECT_EQ(many->inputs.size(), 2u);
  EXPECT_FALSE(many->skip_special_tokens);
  EXPECT_EQ(From<ParseTeiDecode>(R"({"ids":["a"]})").status().field(), "ids[0]");
  EXPECT_EQ(From<ParseTeiDecode>(R"({"ids":[[1],2]})").status().field(), "ids[1]");
  EXPECT_EQ(PrintTeiDecode({{"a\"", "b"}}), R"(["a\"","b"])");
}

TEST(Tei, Info) {
  api::ModelInfo model;
  model.name = "m";
  model.task = "reranking";
  model.dtype = "float32";
  model.labels = {"LABEL_0"};
  model.max_tokens = 512;
  model.max_batch_tokens = 1024;
  api::ModelInfo other;
  other.name = "o/n";
  other.aliases = {"n"};
  api::ServiceOptions limits;
  limits.tokenization_workers = 2;
  const std::string info = PrintTeiInfo(model, {model, other}, limits);
  for (const char* part :
       {R"("model_id":"m","model_sha":null)", R"("max_input_length":512,"max_batch_tokens":1024)",
        R"("model_type":{"reranker":{"id2label":{"0":"LABEL_0"},"label2id":{"LABEL_0":0}}})",
        R"("tokenization_workers":2,)",
        R"("models":[{"id":"m","aliases":[],"task":"reranking","ready":false,"dtype":"float32",)"
        R"("max_tokens":512,"max_batch_tokens":1024,"lifecycle":{)",
        R"("cache_bytes":0}}},{"id":"o/n","aliases":["n"],)"}) {
    EXPECT_NE(info.find(part), std::string::npos) << info;
  }
  model.task = "embedding";
  model.pooling = "mean";
  EXPECT_NE(PrintTeiInfo(model, {}, limits).find(R"({"embedding":{"pooling":"mean"}})"),
            std::string::npos);
}

TEST(Tei, RootFollowsTheModel) {
  EXPECT_EQ(ChooseRoot(R"({"inputs":"a"})", "embedding"), TeiRootTask::kEmbed);
  EXPECT_EQ(ChooseRoot(R"({"inputs":{"source_sentence":"a"}})", "embedding"),
            TeiRootTask::kSimilarity);
  EXPECT_EQ(ChooseRoot(R"({"query":"a","texts":[]})", "reranking"), TeiRootTask::kRerank);
  EXPECT_EQ(ChooseRoot(R"({"inputs":["a","b"]})", "reranking"), TeiRootTask::kPredict);
  EXPECT_EQ(ChooseRoot("{}", "classification"), TeiRootTask::kPredict);
}

}  // namespace
}  // namespace penstock::dialects
