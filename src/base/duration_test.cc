#include "base/duration.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

using std::chrono::milliseconds;

TEST(Duration, Reads) {
  EXPECT_EQ(*ParseDuration("300"), milliseconds(300'000));
  EXPECT_EQ(*ParseDuration("1.5"), milliseconds(1500));
  EXPECT_EQ(*ParseDuration("5m"), milliseconds(300'000));
  EXPECT_EQ(*ParseDuration("1h30m"), milliseconds(5'400'000));
  EXPECT_EQ(*ParseDuration("250ms"), milliseconds(250));
  EXPECT_EQ(*ParseDuration("1d"), milliseconds(86'400'000));
  EXPECT_EQ(*ParseDuration("0"), milliseconds(0));
  EXPECT_EQ(*ParseDuration("-1"), milliseconds(-1));
  EXPECT_EQ(*ParseDuration("-1m"), milliseconds(-1));
}

TEST(Duration, Refuses) {
  for (const char* text : {"", "-", "5x", "m", "5m3", "1e9", "nan", "inf", "5 m", "99999999999",
                           "--1", "0x10", "1h-3m", "5mm"}) {
    const auto read = ParseDuration(text);
    EXPECT_EQ(read.code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST(Duration, Prints) {
  EXPECT_EQ(DurationText(milliseconds(300'000)), "5m");
  EXPECT_EQ(DurationText(milliseconds(5'430'000)), "1h30m30s");
  EXPECT_EQ(DurationText(milliseconds(0)), "0s");
  EXPECT_EQ(DurationText(milliseconds(2500)), "2.5s");
  EXPECT_EQ(DurationText(milliseconds(-1)), "for ever");
}

}  // namespace
}  // namespace penstock
