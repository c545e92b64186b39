#include "dialects/openai/openai.h"

#include <gtest/gtest.h>

#include <limits>

namespace penstock::dialects {
namespace {

TEST(ParseEmbeddingsCall, AllFields) {
  const auto call = ParseEmbeddingsCall(
      R"({"model":"m","input":["a"],"encoding_format":"base64","dimensions":64,"user":{"x":1},)"
      R"("truncate":"END","normalize":false,"prompt_name":"q","input_type":"query","zzz":[]})");
  ASSERT_TRUE(call.ok()) << call.status().ToString();
  EXPECT_TRUE(call->format.base64);
  EXPECT_EQ(call->request.model, "m");
  EXPECT_EQ(call->request.dimensions, 64);
  EXPECT_EQ(call->request.normalize, false);
  EXPECT_EQ(call->request.text.truncate, true);
  EXPECT_EQ(call->request.text.prompt_name, "q");
  EXPECT_EQ(call->request.text.input_type, api::InputType::kQuery);
}

TEST(ParseEmbeddingsCall, DefaultsAndJina) {
  const auto call = ParseEmbeddingsCall(R"({"input":"a","task":"retrieval.passage"})");
  ASSERT_TRUE(call.ok());
  EXPECT_FALSE(call->format.base64);
  EXPECT_EQ(call->request.model, "");
  EXPECT_EQ(call->request.dimensions, std::nullopt);
  EXPECT_EQ(call->request.normalize, std::nullopt);
  EXPECT_EQ(call->request.text.input_type, api::InputType::kDocument);
  EXPECT_TRUE(ParseEmbeddingsCall(R"({"input":"a","embedding_type":"base64"})")->format.base64);
}

TEST(ParseEmbeddingsCall, JinasAndVoyagesFields) {
  const auto jina = ParseEmbeddingsCall(
      R"({"input":["a",{"text":"b"}],"embedding_type":"ubinary","task":"text-matching",)"
      R"("normalized":false,"late_chunking":false,"truncate":true,"dimensions":8})");
  ASSERT_TRUE(jina.ok()) << jina.status().ToString();
  EXPECT_EQ(jina->request.inputs[1].text, "b");
  EXPECT_EQ(jina->format.type, EmbeddingType::kUbinary);
  EXPECT_EQ(jina->request.normalize, false);
  EXPECT_EQ(jina->request.text.input_type, api::InputType::kUnset);
  const auto voyage = ParseEmbeddingsCall(
      R"({"input":["a"],"model":"m","input_type":null,"truncation":false,"output_dtype":"int8",)"
      R"("output_dimension":16,"encoding_format":"base64","quantize_range":0.5})");
  ASSERT_TRUE(voyage.ok()) << voyage.status().ToString();
  EXPECT_EQ(voyage->format.type, EmbeddingType::kInt8);
  EXPECT_TRUE(voyage->format.base64);
  EXPECT_EQ(voyage->format.range, 0.5f);
  EXPECT_EQ(voyage->request.dimensions, 16);
  EXPECT_EQ(voyage->request.text.truncate, false);
  const auto query = ParseEmbeddingsCall(R"({"input":"a","task":"code.query"})");
  EXPECT_EQ(query->request.text.input_type, api::InputType::kQuery);
}

TEST(ParseEmbeddingsCall, TokenIdsMayBeRefused) {
  api::ServiceOptions limits;
  EXPECT_TRUE(ParseEmbeddingsCall(R"({"input":[5,6]})", limits)->request.inputs[0].is_ids);
  limits.openai_token_ids = false;
  for (const char* const body : {R"({"input":[5,6]})", R"({"input":[[5],[6]]})"}) {
    const auto call = ParseEmbeddingsCall(body, limits);
    ASSERT_FALSE(call.ok());
    EXPECT_EQ(call.status().field(), "input");
    EXPECT_NE(call.status().message().find("--openai-token-ids"), std::string::npos);
  }
  EXPECT_TRUE(ParseEmbeddingsCall(R"({"input":["a"]})", limits).ok());
}

TEST(ParseEmbeddingsCall, RefusalsNameTheField) {
  const auto expect = [](std::string_view json, const char* field) {
    const auto call = ParseEmbeddingsCall(json);
    ASSERT_FALSE(call.ok()) << json;
    EXPECT_EQ(call.status().field(), field) << json;
  };
  expect(R"({"input":"a","model":3})", "model");
  expect(R"({"input":"a","encoding_format":"int8"})", "encoding_format");
  expect(R"({"input":"a","encoding_format":1})", "encoding_format");
  expect(R"({"input":"a","dimensions":0})", "dimensions");
  expect(R"({"input":"a","dimensions":-5})", "dimensions");
  expect(R"({"input":"a","dimensions":"64"})", "dimensions");
  expect(R"({"input":"a","dimensions":1e30})", "dimensions");
  expect(R"({"input":"a","normalize":"yes"})", "normalize");
  expect(R"({"input":"a","embedding_type":"float16"})", "embedding_type");
  expect(R"({"input":"a","embedding_type":["float"]})", "embedding_type");
  expect(R"({"input":"a","output_dtype":"int4"})", "output_dtype");
  expect(R"({"input":"a","embedding_type":"int8","output_dtype":"uint8"})", "output_dtype");
  expect(R"({"input":"a","dimensions":4,"output_dimension":8})", "output_dimension");
  expect(R"({"input":"a","truncate":true,"truncation":false})", "truncation");
  expect(R"({"input":"a","normalize":true,"normalized":false})", "normalized");
  expect(R"({"input":"a","task":"translation"})", "task");
  expect(R"({"input":"a","late_chunking":true})", "late_chunking");
  expect(R"({"input":"a","return_multivector":true})", "return_multivector");
  expect(R"({"input":[{"image":"x"}]})", "input[0].image");
  expect(R"({"input":[{"text":"a","image":"x"}]})", "input[0].image");
  expect(R"({"input":[{}]})", "input[0].text");
  expect(R"({"input":"a","output_dtype":"int8","quantize_range":0})", "quantize_range");
}

TEST(PrintEmbeddings, FloatsAndBase64) {
  api::EmbedResponse response;
  response.model = "m\"";
  response.dimensions = 2;
  response.values = {0.1f, -1.0f, 1e-10f, 3.0f};
  response.usage.prompt_tokens = 7;
  response.truncation = {1, 5};
  EXPECT_EQ(PrintEmbeddings(response),
            R"({"object":"list","data":[)"
            R"({"object":"embedding","index":0,"embedding":[0.1,-1.0]},)"
            R"({"object":"embedding","index":1,"embedding":[1e-10,3.0]}],)"
            R"("model":"m\"","usage":{"prompt_tokens":7,"total_tokens":7},)"
            R"("truncated":{"inputs":1,"tokens":5,"unread_bytes":0}})");
  EXPECT_NE(
      PrintEmbeddings(response, {.base64 = true}).find(R"("index":0,"embedding":"zczMPQAAgL8="})"),
      std::string::npos);
}

TEST(PrintEmbeddings, NoInputs) {
  EXPECT_NE(PrintEmbeddings(api::EmbedResponse()).find(R"("data":[])"), std::string::npos);
}

TEST(PrintModels, ListAndOne) {
  api::ModelInfo model;
  model.name = "org/m";
  model.task = "embedding";
  model.created_unix_s = 12;
  model.max_tokens = 512;
  model.dimensions = 384;
  model.similarity = "dot";
  model.normalizes = true;
  model.prompts = {{"query", "q: "}};
  model.ready = true;
  model.aliases = {"m", "b"};
  model.dtype = "int8";
  model.max_batch_tokens = 1024;
  model.state = "ready";
  model.keep_alive = std::chrono::milliseconds(1500);
  model.idle_s = 0.5;
  model.unload_in_s = 1;
  model.loads = 2;
  model.load_s = 0.25;
  model.evictions = 1;
  model.requests_waiting = 3;
  model.weights_memory = 10;
  model.activations_memory = 20;
  model.cache_memory = 30;
  const std::string one =
      R"({"id":"org/m","object":"model","created":12,"owned_by":"penstock",)"
      R"("aliases":["m","b"],"task":"embedding","ready":true,"dtype":"int8","max_tokens":512,)"
      R"("max_batch_tokens":1024,"dimensions":384,"similarity":"dot","normalized":true,)"
      R"("prompts":{"query":"q: "},"lifecycle":{"state":"ready","pinned":false,)"
      R"("keep_alive_s":1.5,"idle_s":0.5,"unload_in_s":1.0,"loads":2,"load_s":0.25,"evictions":1,)"
      R"("requests_waiting":3,"memory":{"weights_bytes":10,"activations_bytes":20,"cache_bytes":30}}})";
  EXPECT_EQ(PrintModel(model), one);
  const std::string cohere =
      R"({"name":"org/m","endpoints":["embed"],"finetuned":false,"context_length":512})";
  const std::string data = R"({"object":"list","data":[)" + one + "," + one + R"(],"models":[)";
  EXPECT_EQ(PrintModels({model, model}), data + cohere + "," + cohere + "]}");
  EXPECT_EQ(PrintModels({model, model}, "rerank"), data + "]}");
}

}  // namespace
}  // namespace penstock::dialects
