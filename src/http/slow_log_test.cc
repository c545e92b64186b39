#include "http/slow_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "metrics/stages.h"

namespace penstock {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;

const Clock::time_point kBegin{std::chrono::hours(1)};

HttpRequest Request() {
  HttpRequest request;
  request.begin = kBegin;
  request.id = "abc";
  request.remote = "127.0.0.1:9";
  return request;
}

TEST(SlowLog, SaysEveryStage) {
  Metrics metrics;
  SlowLog log(milliseconds(100), &metrics);
  HttpRequest request = Request();
  request.context.trace = std::make_shared<RequestTrace>(kBegin);
  RequestTrace& trace = *request.context.trace;
  trace.SetModel("m");
  trace.SetRows(3);
  trace.SetTokens(45);
  trace.Enter(Stage::kParse, kBegin + milliseconds(1));
  trace.Enter(Stage::kTokenize, kBegin + milliseconds(3));
  trace.Enter(Stage::kQueue, kBegin + milliseconds(7));
  trace.Batched(kBegin + milliseconds(15), kBegin + milliseconds(16), kBegin + milliseconds(120),
                true);
  trace.Enter(Stage::kSerialise, kBegin + milliseconds(121));
  trace.Enter(Stage::kSend, kBegin + milliseconds(123));
  trace.Finish(kBegin + milliseconds(126));
  const auto line = log.Line(request, "POST /embed", 200, kBegin + milliseconds(126));
  ASSERT_TRUE(line);
  EXPECT_EQ(*line,
            "slow request: 126.0 ms, POST /embed, status 200, model 'm', 3 rows, 45 tokens; "
            "receive 1.000 parse 2.000 tokenize 4.000 queue 8.000 form 1.000 forward 104.000 "
            "complete 1.000 serialise 2.000 send 3.000 ms; id abc, from 127.0.0.1:9");
}

TEST(SlowLog, WithoutATraceTheRestIsSaid) {
  Metrics metrics;
  SlowLog log(milliseconds(100), &metrics);
  EXPECT_EQ(log.Line(Request(), "no route", 404, kBegin + milliseconds(100)).value_or(""),
            "slow request: 100.0 ms, no route, status 404; id abc, from 127.0.0.1:9");
}

TEST(SlowLog, TheLimitIsTheLimit) {
  Metrics metrics;
  const SlowLog log(milliseconds(100), &metrics);
  EXPECT_FALSE(log.IsSlow(Request(), kBegin + milliseconds(99)));
  EXPECT_TRUE(log.IsSlow(Request(), kBegin + milliseconds(100)));
  const SlowLog off(milliseconds(0), &metrics);
  EXPECT_FALSE(off.IsSlow(Request(), kBegin + std::chrono::hours(1)));
}

TEST(SlowLog, AFewLinesASecondAndTheRestIsCounted) {
  Metrics metrics;
  SlowLog log(milliseconds(100), &metrics);
  const auto line = [&](int64_t ms) {
    return log.Line(Request(), "POST /embed", 200, kBegin + milliseconds(ms));
  };
  int lines = 0;
  for (int i = 0; i < 50; ++i) lines += line(1000 + i).has_value();
  EXPECT_EQ(lines, SlowLog::kLinesPerSecondMax);
  const auto next = line(2000);
  ASSERT_TRUE(next);
  EXPECT_THAT(*next, HasSubstr("; 45 more were slow since the last line"));
  EXPECT_THAT(line(2001).value_or("nothing"), Not(HasSubstr("more")));
  EXPECT_THAT(metrics.Render(), HasSubstr("\npenstock_slow_requests_total 52\n"));
}

}  // namespace
}  // namespace penstock
