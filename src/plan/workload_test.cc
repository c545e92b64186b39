#include "plan/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>

#include "base/temp_folder_test_util.h"

namespace penstock::plan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string Text(const Request& request) {
  std::string text = std::to_string(request.at_s) + " " + std::to_string(request.session) + " " +
                     std::to_string(request.prompt) + " " + std::to_string(request.output);
  for (const int32_t length : request.lengths) text += " " + std::to_string(length);
  return text;
}

TEST(RequestSource, EqualSeedsGiveEqualRequestsAtTheRate) {
  Workload workload;
  workload.rate = 100;
  workload.burst = 4;
  workload.texts = 2;
  workload.bulk_share = 0.25;
  RequestSource one(workload, 7), two(workload, 7), other(workload, 8);
  Request a, b, c;
  int bulk = 0, differ = 0;
  constexpr int kCount = 20'000;
  for (int i = 0; i < kCount; ++i) {
    one.Next(&a);
    two.Next(&b);
    other.Next(&c);
    ASSERT_EQ(Text(a), Text(b));
    ASSERT_EQ(a.lengths.size(), 2u);
    differ += Text(a) == Text(c) ? 0 : 1;
    bulk += a.priority == Priority::kBulk ? 1 : 0;
  }
  EXPECT_GT(differ, kCount / 2);
  EXPECT_NEAR(kCount / a.at_s, 100, 5);
  EXPECT_NEAR(1.0 * bulk / kCount, 0.25, 0.02);
}

TEST(RequestSource, ConversationsGrowAndEnd) {
  Workload workload;
  workload.chat = true;
  workload.rate = 1;
  workload.prompts.kind = workload.outputs.kind = load::LengthSpec::Kind::kFixed;
  workload.prompts.max = 10;
  workload.outputs.max = 20;
  workload.shared = 50;
  workload.turns = 4;
  workload.context = 1000;
  RequestSource source(workload, 1);
  std::map<uint64_t, int> turns;
  Request request;
  constexpr int kCount = 10'000;
  for (int i = 0; i < kCount; ++i) {
    source.Next(&request);
    const int turn = turns[request.session]++;
    ASSERT_EQ(request.prompt, 50 + 30 * turn + 10) << "what was said before, and what is new";
    ASSERT_EQ(request.shared, 50);
    ASSERT_EQ(request.output, 20);
    ASSERT_LT(request.prompt + request.output, workload.context);
  }
  EXPECT_NEAR(1.0 * kCount / static_cast<double>(turns.size()), 4, 0.3);
}

class Trace : public testing::Test {
 protected:
  Expected<std::shared_ptr<const std::vector<Request>>> Read(const std::string& text) {
    const std::string path = (folder_.path() / "trace.jsonl").string();
    std::ofstream(path) << text;
    return ReadTrace(path);
  }
  TempFolder folder_;
};

TEST_F(Trace, IsPlayedOverAndOverAtTheRate) {
  Workload workload;
  const auto trace = Read(
      "{\"at\": 10, \"tokens\": 5}\n\n{\"at\": 11, \"tokens\": [6, 7], \"priority\": \"bulk\"}\n"
      "{\"at\": 14, \"tokens\": 8}\n");
  ASSERT_TRUE(trace.ok()) << trace.status().ToString();
  workload.trace = *trace;
  workload.rate = RateOf(**trace);
  EXPECT_DOUBLE_EQ(workload.rate, 0.5);
  RequestSource source(workload, 1);
  std::vector<double> at;
  Request request;
  for (int i = 0; i < 6; ++i) {
    source.Next(&request);
    at.push_back(request.at_s);
    if (i % 3 == 1) EXPECT_THAT(request.lengths, ElementsAre(6, 7));
    EXPECT_EQ(request.priority == Priority::kBulk, i % 3 == 1);
  }
  EXPECT_THAT(at, ElementsAre(2, 3, 6, 8, 9, 12));
  workload.rate = 5;  // ten times as often
  RequestSource fast(workload, 1);
  fast.Next(&request);
  EXPECT_DOUBLE_EQ(request.at_s, 0.2);
}

TEST_F(Trace, OfChats) {
  const auto trace = Read(
      "{\"at\": 0, \"prompt\": 5, \"output\": 3, \"session\": \"a\", \"shared\": 2}\n"
      "{\"at\": 1, \"prompt\": 9, \"output\": 3, \"session\": \"a\"}\n"
      "{\"at\": 1, \"prompt\": 9, \"output\": 3}\n");
  ASSERT_TRUE(trace.ok()) << trace.status().ToString();
  EXPECT_EQ((**trace)[0].session, (**trace)[1].session);
  EXPECT_NE((**trace)[1].session, (**trace)[2].session);
  EXPECT_EQ((**trace)[0].shared, 2);
}

TEST_F(Trace, NamesTheLine) {
  const auto message = [this](const std::string& text) { return Read(text).status().message(); };
  const std::string good = "{\"at\": 1, \"tokens\": 5}\n";
  EXPECT_THAT(message(good + "x\n"), HasSubstr("line 2"));
  EXPECT_THAT(message(good + "{\"at\": 0, \"tokens\": 5}\n"), HasSubstr("by time"));
  EXPECT_THAT(message(good + "{\"at\": 2, \"tokens\": 0}\n"), HasSubstr("tokens"));
  EXPECT_THAT(message(good + "{\"at\": 2, \"tokens\": []}\n"), HasSubstr("empty"));
  EXPECT_THAT(message(good + "{\"at\": 2, \"tokens\": [5, -1]}\n"), HasSubstr("tokens"));
  EXPECT_THAT(message(good + "{\"tokens\": 5}\n"), HasSubstr("at"));
  EXPECT_THAT(message(good + "{\"at\": 2, \"tokens\": 5, \"priority\": \"x\"}\n"),
              HasSubstr("priority"));
  EXPECT_THAT(message(good + "{\"at\": 2, \"prompt\": 5, \"output\": 5}\n"), HasSubstr("one kind"));
  EXPECT_THAT(message(good), HasSubstr("two requests"));
  EXPECT_THAT(message(""), HasSubstr("two requests"));
  EXPECT_EQ(ReadTrace("/nowhere").status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace penstock::plan
