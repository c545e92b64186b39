#include "dialects/rerank/rerank.h"

#include <gtest/gtest.h>

#include "dialects/shared/fields.h"

namespace penstock::dialects {
namespace {

Expected<RerankCall> Parsed(std::string_view text) {
  const auto body = RequestBody::Parse(text);
  if (!body.ok()) return body.status();
  return ParseRerankCall(body->object());
}

TEST(ParseRerankCall, CohereAndJinaShapes) {
  const auto call =
      Parsed(R"({"model":"m","query":"q","documents":["a",{"text":"b","title":"t"}],"top_n":1,)"
             R"("return_documents":true,"max_tokens_per_doc":4096,"rank_fields":["text"]})");
  ASSERT_TRUE(call.ok()) << call.status().ToString();
  EXPECT_EQ(call->request.documents, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(call->request.top_n, 1);
  EXPECT_EQ(call->request.raw_scores, std::nullopt);
  EXPECT_TRUE(call->return_documents);
  const auto object = Parsed(R"({"query":{"text":"q"},"documents":[]})");
  ASSERT_TRUE(object.ok());
  EXPECT_EQ(object->request.query, "q");
  EXPECT_FALSE(object->return_documents);
}

TEST(ParseRerankCall, RefusalsNameTheField) {
  const auto expect = [](std::string_view json, const char* field) {
    const auto call = Parsed(json);
    ASSERT_FALSE(call.ok()) << json;
    EXPECT_EQ(call.status().field(), field) << json;
  };
  expect(R"({"documents":["a"]})", "query");
  expect(R"({"query":1,"documents":["a"]})", "query");
  expect(R"({"query":{"text":1},"documents":["a"]})", "query.text");
  expect(R"({"query":"q"})", "documents");
  expect(R"({"query":"q","documents":"a"})", "documents");
  expect(R"({"query":"q","documents":["a",1]})", "documents[1]");
  expect(R"({"query":"q","documents":["a",{"title":"x"}]})", "documents[1].text");
  expect(R"({"query":"q","documents":["a"],"top_n":0})", "top_n");
  expect(R"({"query":"q","documents":["a"],"top_n":"1"})", "top_n");
  expect(R"({"query":"q","documents":["a"],"return_documents":1})", "return_documents");
  expect(R"({"query":"q","documents":["a"],"raw_scores":"x"})", "raw_scores");
  expect(R"({"query":"q","documents":["a"],"top_n":1,"top_k":2})", "top_k");
  expect(R"({"query":"q","documents":["a"],"truncate":true,"truncation":false})", "truncation");
  expect(R"({"query":"q","documents":["a"],"rank_fields":["title"]})", "rank_fields");
}

TEST(ParseRerankCall, VoyagesFields) {
  const auto call =
      Parsed(R"({"query":"q","documents":["a"],"model":"m","top_k":2,"truncation":false})");
  ASSERT_TRUE(call.ok()) << call.status().ToString();
  EXPECT_TRUE(call->voyage);
  EXPECT_EQ(call->request.top_n, 2);
  EXPECT_EQ(call->request.text.truncate, false);
  EXPECT_TRUE(Parsed(R"({"query":"q","documents":["a"],"top_k":null})")->voyage);
  EXPECT_FALSE(Parsed(R"({"query":"q","documents":["a"],"rank_fields":["text"]})")->voyage);
}

TEST(PrintRerank, VoyagesForm) {
  api::RerankResponse response;
  response.items = {{1, 0.75f}};
  const std::vector<std::string> documents = {"zero", "one"};
  EXPECT_NE(PrintRerank(response, &documents, "r", true)
                .find(R"("data":[{"index":1,"relevance_score":0.75,"document":"one"}],"usage")"),
            std::string::npos);
}

TEST(PrintRerank, BothDialects) {
  api::RerankResponse response;
  response.model = "m";
  response.items = {{1, 0.75f}, {0, 0.5f}};
  response.usage.prompt_tokens = 9;
  const std::string tail =
      R"(],"usage":{"prompt_tokens":9,"total_tokens":9},"meta":{"api_version":{"version":"2"},)"
      R"("billed_units":{"search_units":1},"tokens":{"input_tokens":9}},)"
      R"("truncated":{"inputs":0,"tokens":0,"unread_bytes":0}})";
  EXPECT_EQ(PrintRerank(response, nullptr, "r"),
            R"({"id":"r","object":"list","model":"m","results":[)"
            R"({"index":1,"relevance_score":0.75},{"index":0,"relevance_score":0.5})" +
                tail);
  const std::vector<std::string> documents = {"zero", "one"};
  EXPECT_EQ(PrintRerank(response, &documents, "r"),
            R"({"id":"r","object":"list","model":"m","results":[)"
            R"({"index":1,"relevance_score":0.75,"document":{"text":"one"}},)"
            R"({"index":0,"relevance_score":0.5,"document":{"text":"zero"}})" +
                tail);
}

}  // namespace
}  // namespace penstock::dialects
