#include "batch_api/batch_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>

#include "base/one_hash_test_util.h"
#include "base/temp_folder_test_util.h"
#include "json/json_writer.h"

namespace penstock::batch_api {
namespace {

using testing::ElementsAre;

const char* const kRoute = "/v1/embeddings";

std::string Line(const std::string& id, const std::string& body = R"({"input":"a"})",
                 const std::string& url = kRoute) {
  return R"({"custom_id":")" + id + R"(","method":"POST","url":")" + url + R"(","body":)" + body +
         "}";
}

class BatchFileTest : public testing::Test {
 protected:
  std::string Written(const std::string& text) { return folder_.Write("lines", text); }
  const TempFolder folder_;
};

TEST(ParseBatchLine, TakesARequest) {
  const auto line = ParseBatchLine(Line("x", R"({ "input": "a", "stream": false })"), kRoute);
  ASSERT_TRUE(line.ok()) << line.status().ToString();
  EXPECT_EQ(line->custom_id, "x");
  EXPECT_EQ(line->body, R"({"input":"a","stream":false})");
}

TEST(ParseBatchLine, NamesWhatIsWrong) {
  const auto field = [](const std::string& text) {
    const auto line = ParseBatchLine(text, kRoute);
    EXPECT_EQ(line.code(), StatusCode::kInvalidArgument) << text;
    return line.status().field();
  };
  EXPECT_EQ(field("{"), "");
  EXPECT_EQ(field("[]"), "");
  EXPECT_EQ(field(R"({"method":"POST"})"), "custom_id");
  EXPECT_EQ(field(R"({"custom_id":"a","method":"GET"})"), "method");
  EXPECT_EQ(field(Line("a", "{}", "/v1/completions")), "url");
  EXPECT_EQ(field(Line("a", "5")), "body");
  EXPECT_EQ(field(Line("a", R"({"stream":true})")), "body.stream");
  const auto body = [](size_t bytes) {
    return R"({"input":")" + std::string(bytes, 'x') + R"("})";
  };
  EXPECT_TRUE(ParseBatchLine(Line("a", body(kBatchLineBytesMax - 200)), kRoute).ok());
  const auto long_line = ParseBatchLine(Line("a", body(kBatchLineBytesMax)), kRoute);
  EXPECT_NE(long_line.status().message().find("the limit is 4194304"), std::string::npos);
}

TEST_F(BatchFileTest, EveryFaultIsListed) {
  int64_t lines = 0;
  const auto errors = *CheckBatchFile(
      Written(Line("a") + "\n\n" + Line("a") + "\nno json\n" + Line("b", "1") + "\r\n" + Line("c")),
      kRoute, &lines);
  EXPECT_EQ(lines, 5);
  ASSERT_EQ(errors.size(), 3u);
  EXPECT_EQ(errors[0].code, "duplicate_custom_id");
  EXPECT_EQ(errors[0].line, 3);
  EXPECT_EQ(errors[1].line, 4);
  EXPECT_EQ(errors[2].param, "body");
  EXPECT_TRUE(CheckBatchFile(Written(Line("a") + "\n" + Line("b")), kRoute, &lines)->empty());
  EXPECT_EQ(CheckBatchFile(Written("\n"), kRoute, &lines)->at(0).code, "empty_file");
  EXPECT_EQ(CheckBatchFile(folder_ / "gone", kRoute, &lines)->at(0).code, "missing_file");
  // That a file cannot be read now is not its fault: the batch goes on later.
  EXPECT_EQ(CheckBatchFile("/proc/self/mem", kRoute, &lines).code(), StatusCode::kUnavailable);
  std::string broken;
  for (size_t i = 0; i < 2 * kBatchErrorsMax; ++i) broken += "x\n";
  EXPECT_EQ(CheckBatchFile(Written(broken), kRoute, &lines)->size(), kBatchErrorsMax);
}

TEST_F(BatchFileTest, AnswersAreFoundAgain) {
  std::string text;
  AppendBatchAnswer({7, "a\"b", ""}, 200, "r", R"({"x":1})", &text);
  EXPECT_EQ(text, R"({"id":"batch_req_7","custom_id":"a\"b","response":{"status_code":200,)"
                  R"("request_id":"r","body":{"x":1}},"error":null})"
                  "\n");
  AppendBatchError({12, "c", ""}, "code", "why", &text);
  const uint64_t whole = text.size();
  uint64_t bytes = 0;
  // A line that a crash has cut is not there.
  for (const char* const rest : {"", "{\"id\":\"batch_req_13\",\"cus", "{\"id\":\"batch_req_13"}) {
    EXPECT_THAT(*ReadAnswered(Written(text + rest), &bytes), ElementsAre(7, 12));
    EXPECT_EQ(bytes, whole);
  }
  EXPECT_THAT(*ReadAnswered(Written("other\n" + text), &bytes), ElementsAre());
  for (const std::string& unreadable : {folder_ / "gone", std::string("/proc/self/mem")}) {
    EXPECT_EQ(ReadAnswered(unreadable, &bytes).code(), StatusCode::kUnavailable);
  }
  EXPECT_EQ(bytes, 0u);
}

TEST_F(BatchFileTest, ACheckThatIsCancelledEnds) {
  CancelToken cancel;
  int64_t count = 0;
  const std::string path = Written(Line("a") + "\n" + Line("b") + "\n");
  EXPECT_TRUE(CheckBatchFile(path, kRoute, &count, &cancel).ok());
  cancel.Cancel();
  EXPECT_EQ(CheckBatchFile(path, kRoute, &count, &cancel).code(), StatusCode::kCancelled);
}

TEST_F(BatchFileTest, IdsOfOneHashTakeNoLonger) {
  const double ratio = OneHashRatio(10'000, [&](const std::vector<std::string>& ids) {
    std::string lines;
    for (const std::string& id : ids) {
      JsonWriter json(&lines);
      json.BeginObject().Field("custom_id", id).Field("method", "POST").Field("url", kRoute);
      json.Key("body").Raw(R"({"input":"a"})").EndObject();
      lines += '\n';
    }
    int64_t count = 0;
    const auto errors = CheckBatchFile(Written(lines), kRoute, &count);
    ASSERT_TRUE(errors.ok() && errors->empty());
    EXPECT_EQ(count, 10'000);
  });
  std::cout << "time of ids of one hash over others: " << ratio << "\n";
  EXPECT_LT(ratio, 2);
}

}  // namespace
}  // namespace penstock::batch_api
