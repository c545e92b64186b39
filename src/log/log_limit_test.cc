#include "log/log_limit.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(LogLimit, AFewASecondAndTheRestIsTold) {
  LogLimit limit(2);
  const auto begin = LogLimit::Clock::time_point(std::chrono::hours(1));
  EXPECT_EQ(limit.Pass(begin), 0);
  EXPECT_EQ(limit.Pass(begin), 0);
  for (int i = 0; i < 7; ++i) EXPECT_EQ(limit.Pass(begin), std::nullopt);
  EXPECT_EQ(limit.Pass(begin + std::chrono::seconds(1)), 7);
  EXPECT_EQ(limit.Pass(begin + std::chrono::seconds(1)), 0);
  EXPECT_EQ(LogLimit::LeftOut(0), "");
  EXPECT_EQ(LogLimit::LeftOut(7), "; 7 more since the last line");
}

}  // namespace
}  // namespace penstock
