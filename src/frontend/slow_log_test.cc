#include "frontend/slow_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "frontend/route_info.h"

namespace penstock::frontend {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

const Clock::time_point kBegin{std::chrono::hours(1)};

http::HttpRequest Request() {
  http::HttpRequest request;
  request.begin = kBegin;
  return request;
}

TEST(SlowLog, TheLimitIsTheLimit) {
  metrics::Metrics metrics;
  const SlowLog log(milliseconds(100), &metrics);
  EXPECT_FALSE(log.IsSlow(Request(), kBegin + milliseconds(99)));
  EXPECT_TRUE(log.IsSlow(Request(), kBegin + milliseconds(100)));
  const SlowLog off(milliseconds(0), &metrics);
  EXPECT_FALSE(off.IsSlow(Request(), kBegin + std::chrono::hours(1)));
}

// A text of `tokens`: the first after `first_ms`, the rest `decode_ms` later, all over at the end
// of `send_ms` more.
bool TextIsSlow(const SlowLog& log, int first_ms, int decode_ms, int64_t tokens, int send_ms = 0) {
  http::HttpRequest request = Request();
  const auto trace = std::make_shared<metrics::RequestTrace>(kBegin);
  request.context.trace = trace;
  trace->Enter(metrics::Stage::kPrefill, kBegin + milliseconds(1));
  trace->Enter(metrics::Stage::kDecode, kBegin + milliseconds(first_ms));
  trace->SetTextTokens(tokens);
  trace->Enter(metrics::Stage::kSend, kBegin + milliseconds(first_ms + decode_ms));
  const auto end = kBegin + milliseconds(first_ms + decode_ms + send_ms);
  trace->Finish(end);
  return log.IsSlow(request, end);
}

TEST(SlowLog, ATextIsSlowByItsFirstTokenOrItsPaceNotByItsLength) {
  metrics::Metrics metrics;
  const SlowLog log(milliseconds(1000), &metrics);
  EXPECT_FALSE(TextIsSlow(log, 900, 60'000, 1000));  // a minute, 60 ms a token
  EXPECT_TRUE(TextIsSlow(log, 1000, 60'000, 1000));  // the first token came late
  EXPECT_TRUE(TextIsSlow(log, 100, 10'000, 41));     // 250 ms a token
  EXPECT_FALSE(TextIsSlow(log, 100, 10'000, 42));
  EXPECT_TRUE(TextIsSlow(log, 500, 2000, 100, 500));  // it was sent late
  EXPECT_FALSE(TextIsSlow(log, 10, 900, 2));          // all of it within the limit
  EXPECT_TRUE(TextIsSlow(log, 1000, 0, 1));
  EXPECT_TRUE(TextIsSlow(log, 10, 990, 0));  // no token: the time of the whole counts
}

TEST(SlowLog, AFewLinesASecondAndTheRestIsCounted) {
  metrics::Metrics metrics;
  SlowLog log(milliseconds(100), &metrics);
  const auto pass = [&](int64_t ms) { return log.Pass(kBegin + milliseconds(ms)); };
  int lines = 0;
  for (int i = 0; i < 50; ++i) lines += pass(1000 + i).has_value();
  EXPECT_EQ(lines, SlowLog::kLinesPerSecondMax);
  EXPECT_EQ(pass(2000), 45);
  EXPECT_EQ(pass(2001), 0);
  EXPECT_THAT(metrics.Render(), HasSubstr("\npenstock_slow_requests_total 52\n"));
}

TEST(SlowLog, TheLastRequestsAreKeptWithTheirStages) {
  metrics::Metrics metrics;
  SlowLog log(milliseconds(100), &metrics);
  const RouteInfo route{"POST", "/embed"};
  const size_t requests = SlowLog::kKeptMax + 5;
  for (size_t i = 0; i < requests; ++i) {
    http::HttpRequest request = Request();
    request.id = "id-" + std::to_string(i);
    request.body_bytes = 20;
    if (i + 1 == requests) {
      request.context.trace = std::make_shared<metrics::RequestTrace>(kBegin);
      request.context.trace->SetModel("m");
      request.context.trace->SetRows(3);
      request.context.trace->Enter(metrics::Stage::kForward, kBegin + milliseconds(30));
      request.context.trace->Finish(kBegin + milliseconds(150));
    }
    log.Keep({&request, i == 0 ? nullptr : &route, 200, 90, kBegin + milliseconds(150)});
  }
  const std::vector<SlowRequest> kept = log.Kept();
  ASSERT_EQ(kept.size(), SlowLog::kKeptMax);
  const SlowRequest& newest = kept.front();
  EXPECT_EQ(newest.id, "id-" + std::to_string(requests - 1));
  EXPECT_EQ(kept.back().id, "id-5");
  EXPECT_DOUBLE_EQ(newest.ms, 150);
  EXPECT_STREQ(newest.path, "/embed");
  EXPECT_EQ(newest.model, "m");
  EXPECT_EQ(newest.rows, 3);
  EXPECT_TRUE(newest.timed);
  EXPECT_EQ(newest.stage_ns[static_cast<size_t>(metrics::Stage::kReceive)], 30'000'000);
  EXPECT_EQ(newest.stage_ns[static_cast<size_t>(metrics::Stage::kForward)], 120'000'000);
  EXPECT_FALSE(kept[1].timed);
  EXPECT_GT(newest.end_unix_ms, 1'700'000'000'000);
}

}  // namespace
}  // namespace penstock::frontend
