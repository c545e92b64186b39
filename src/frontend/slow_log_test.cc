#include "frontend/slow_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

const Clock::time_point kBegin{std::chrono::hours(1)};

HttpRequest Request() {
  HttpRequest request;
  request.begin = kBegin;
  return request;
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
  const auto pass = [&](int64_t ms) { return log.Pass(kBegin + milliseconds(ms)); };
  int lines = 0;
  for (int i = 0; i < 50; ++i) lines += pass(1000 + i).has_value();
  EXPECT_EQ(lines, SlowLog::kLinesPerSecondMax);
  EXPECT_EQ(pass(2000), 45);
  EXPECT_EQ(pass(2001), 0);
  EXPECT_THAT(metrics.Render(), HasSubstr("\npenstock_slow_requests_total 52\n"));
}

}  // namespace
}  // namespace penstock
