#include "dialects/penstock/classify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::dialects {
namespace {

TEST(ParseClassifyCall, Shapes) {
  const auto one = ParseClassifyCall(R"({"input":"a","raw_scores":true})");
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->request.inputs.size(), 1u);
  EXPECT_TRUE(one->request.raw_scores);
  EXPECT_FALSE(one->cohere);
  const auto many = ParseClassifyCall(R"({"inputs":["a",["b","c"]]})");
  ASSERT_TRUE(many.ok());
  EXPECT_EQ(many->request.inputs[0].second, std::nullopt);
  EXPECT_EQ(many->request.inputs[1].first, "b");
  EXPECT_EQ(many->request.inputs[1].second, "c");
  EXPECT_TRUE(many->cohere);
}

TEST(ParseClassifyCall, RefusalsNameTheField) {
  const auto expect = [](std::string_view json, const char* field) {
    const auto call = ParseClassifyCall(json);
    ASSERT_FALSE(call.ok()) << json;
    EXPECT_EQ(call.status().field(), field) << json;
  };
  expect(R"({})", "input");
  expect(R"({"input":["a"],"labels":["x","y"]})", "labels");
  expect(R"({"input":["a"],"classifier_id":"c"})", "classifier_id");
  expect(R"({"inputs":["a"],"examples":[{"text":"a","label":"x"}]})", "examples");
  expect(R"({"input":1})", "input");
  expect(R"({"input":["a",1]})", "input[1]");
  expect(R"({"input":["a",["b"]]})", "input[1]");
  expect(R"({"input":["a",["b","c","d"]]})", "input[1]");
  expect(R"({"input":["a",["b",1]]})", "input[1]");
  expect(R"({"input":"a","raw_scores":1})", "raw_scores");
}

TEST(PrintClassify, Superset) {
  api::ClassifyResponse response;
  response.model = "m";
  response.labels = {"no", "yes"};
  response.inputs = {{{1, 0.75f}, {0, 0.25f}}};
  response.usage.prompt_tokens = 3;
  EXPECT_EQ(PrintClassify(response, "r", 5),
            R"({"id":"r","object":"list","created":5,"model":"m","data":[)"
            R"({"object":"classification","index":0,"label":"yes","prediction":"yes","score":0.75,)"
            R"("num_classes":2,"probs":[0.25,0.75],"predictions":[{"label":"yes","score":0.75},)"
            R"({"label":"no","score":0.25}]}],"usage":{"prompt_tokens":3,"total_tokens":3},)"
            R"("truncated":{"inputs":0,"tokens":0,"unread_bytes":0}})");
  const std::vector<std::string> texts = {"fine"};
  EXPECT_THAT(
      PrintClassify(response, "r", 5, &texts),
      testing::HasSubstr(
          R"("classifications":[{"id":"r-0","input":"fine","prediction":"yes","confidence":0.75,)"
          R"("predictions":["yes"],"confidences":[0.75],"labels":{"yes":{"confidence":0.75},)"
          R"("no":{"confidence":0.25}},"classification_type":"single-label"}])"));
}

}  // namespace
}  // namespace penstock::dialects
