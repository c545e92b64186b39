#include "checks/expected_answers.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/temp_folder_test_util.h"
#include "engine/fake_engine.h"

namespace penstock::checks {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ExpectedAnswersTest : public testing::Test {
 protected:
  Expected<std::optional<ExpectedAnswers>> Read(const std::string& json) {
    std::ofstream(folder_ / "known_answers.json") << json;
    return ExpectedAnswers::Read(folder_.string());
  }
  Status Compare(const std::string& json, families::ModelTask task) {
    const auto expected = Read(json);
    EXPECT_TRUE(expected.ok()) << expected.status().ToString();
    if (!expected.ok()) return expected.status();
    const engine::EncoderParts parts = engine::FakeParts(task);
    CheckClock clock(std::chrono::hours(1), nullptr);
    return CompareAnswers(**expected, parts.ToCheck({}), &clock);
  }

  const TempFolder temp_;
  const fs::path folder_ = temp_.path();
};

TEST_F(ExpectedAnswersTest, NoFileIsFine) {
  EXPECT_FALSE(ExpectedAnswers::Read(folder_.string())->has_value());
  EXPECT_FALSE(ExpectedAnswers::Read(folder_.string() + "/none.gguf")->has_value());
}

TEST_F(ExpectedAnswersTest, Embeddings) {
  // The fake gives [sum of ids, tokens, 3, 4]; its template adds ids 0 and 1.
  constexpr families::ModelTask kEmbeds = families::ModelTask::kEmbedding;
  EXPECT_TRUE(
      Compare(R"({"inputs":["t10","t20 t9"],"embeddings":[[11,3,3,4],[60,8,6,8]]})", kEmbeds).ok());
  const Status off = Compare(
      R"({"inputs":["t10","t20 t9"],"embeddings":[[11,3,3,4],[-30,4,3,4]],"tolerance":1e-3})",
      kEmbeds);
  EXPECT_EQ(off.code(), StatusCode::kInternal);
  EXPECT_THAT(off.message(), HasSubstr("known_answers.json: inputs[1]: the cosine"));
  EXPECT_THAT(off.message(), HasSubstr("not 0.999 at least (tolerance 0.001)"));
  EXPECT_TRUE(
      Compare(R"({"inputs":["t10"],"embeddings":[[11,3.1,3,4]],"tolerance":0.01})", kEmbeds).ok());
  EXPECT_FALSE(
      Compare(R"({"inputs":["t10"],"embeddings":[[11,3.1,3,4]],"tolerance":0})", kEmbeds).ok());
  EXPECT_THAT(Compare(R"({"inputs":["t10"],"embeddings":[[11,3,3]]})", kEmbeds).message(),
              HasSubstr("embeddings[0] has 3 numbers, the model gives 4"));
  // No direction, and numbers without a sum.
  EXPECT_FALSE(Compare(R"({"inputs":["t10"],"embeddings":[[0,0,0,0]]})", kEmbeds).ok());
  EXPECT_FALSE(Compare(R"({"inputs":["t10"],"embeddings":[[1e300,3,3,4]]})", kEmbeds).ok());
}

TEST_F(ExpectedAnswersTest, Scores) {
  constexpr families::ModelTask kReranks = families::ModelTask::kReranking;
  // (sum of ids - 50) / 10, with 0, 1 and 1 of the template.
  EXPECT_TRUE(
      Compare(R"({"query":"t10","documents":["t58","t98"],"scores":[2.0,6.0]})", kReranks).ok());
  const Status off =
      Compare(R"({"query":"t10","documents":["t58","t98"],"scores":[2.0,5.9]})", kReranks);
  EXPECT_EQ(off.code(), StatusCode::kInternal);
  EXPECT_THAT(off.message(), HasSubstr("documents[1]: the score is 6, it must be 5.9"));
  EXPECT_EQ(Compare(R"({"query":"a","documents":["t58"],"scores":[2.0]})",
                    families::ModelTask::kEmbedding)
                .code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(Compare(R"({"inputs":["t10"],"embeddings":[[11,3,3,4]]})", kReranks).code(),
            StatusCode::kInvalidArgument);
}

TEST_F(ExpectedAnswersTest, HostileFilesAreRefusedByField) {
  std::string many = R"({"inputs":["a")", rows = "[1]";
  for (size_t i = 0; i < ExpectedAnswers::kTextsMax; ++i) many += R"(,"a")", rows += ",[1]";
  many += "],\"embeddings\":[" + rows + "]}";
  const std::string deep = std::string(200, '[') + std::string(200, ']');
  const std::pair<std::string, const char*> cases[] = {
      {"", "known_answers.json"},
      {"[]", "known_answers.json"},
      {"{}", "none of"},
      {R"({"inputs":[]})", "inputs"},
      {R"({"inputs":"a","embeddings":[[1]]})", "inputs"},
      {R"({"inputs":["a",1],"embeddings":[[1],[1]]})", "inputs"},
      {R"({"inputs":["a"]})", "embeddings"},
      {R"({"inputs":["a"],"embeddings":[]})", "'embeddings' has 0 rows for 1 inputs"},
      {R"({"inputs":["a"],"embeddings":[1]})", "'embeddings[0]' is not an array"},
      {R"({"inputs":["a"],"embeddings":[[1,"b"]]})", "'embeddings[0][1]' is not a number"},
      {R"({"inputs":["a"],"embeddings":[[1]],"tolerance":2})", "tolerance"},
      {R"({"inputs":["a"],"embeddings":[[1]],"tolerance":"x"})", "tolerance"},
      {R"({"inputs":["a"],"embeddings":[[1]],"toleranse":1})", "'toleranse' is not a field"},
      {R"({"inputs":["a"],"embeddings":[[1]],"greedy":"x"})", "'greedy' does not go with 'inputs'"},
      {R"({"documents":["a"],"scores":[1]})", "query"},
      {R"({"documents":["a"],"query":"b","scores":[1,2]})", "'scores' has 2 numbers for 1"},
      {R"({"documents":["a"],"query":"b","scores":["x"]})", "'scores[0]' is not a number"},
      {R"({"prompt":"a"})", "greedy"},
      {R"({"prompt":"","greedy":"a"})", "prompt"},
      {many, "inputs"},
      {"{\"inputs\":" + deep + "}", "known_answers.json"},
      {"{\"inputs\":[\"" + std::string(2 << 20, 'a') + "\"]}", "known_answers.json"},
  };
  for (const auto& [json, says] : cases) {
    const Status status = Read(json).status();
    EXPECT_FALSE(status.ok()) << json.substr(0, 100);
    EXPECT_THAT(status.message(), HasSubstr(says)) << json.substr(0, 100);
    EXPECT_THAT(status.message(), HasSubstr("known_answers.json"));
    EXPECT_LT(status.message().size(), 1000u);
  }
  fs::remove(folder_ / "known_answers.json");
  fs::create_directory(folder_ / "known_answers.json");
  EXPECT_FALSE(ExpectedAnswers::Read(folder_.string()).ok());
}

TEST_F(ExpectedAnswersTest, TextsAreBoundedTogether) {
  ExpectedAnswers expected;
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "t10 ";
  expected.texts.assign(5, text);
  expected.embeddings.assign(5, {10000, 1002, 3, 4});
  engine::EncoderParts parts = engine::FakeParts(families::ModelTask::kEmbedding);
  parts.max_tokens = 2000;
  CheckClock clock(std::chrono::hours(1), nullptr);
  const Status status = CompareAnswers(expected, parts.ToCheck({}), &clock);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("'inputs[4]' makes the texts longer than 4096 tokens"));
}

}  // namespace
}  // namespace penstock::checks
