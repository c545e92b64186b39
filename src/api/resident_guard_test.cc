#include "api/resident_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::api {
namespace {

using testing::HasSubstr;

class ResidentGuardTest : public testing::Test {
 protected:
  // Whether work of the class is refused when the process has so much, at the next look.
  bool Refused(Priority priority, uint64_t bytes) {
    bytes_ = bytes;
    now_ += ResidentGuard::kLookEvery;
    return !guard_.Check(priority, now_).ok();
  }
  bool Prints(const std::string& line) const {
    return metrics_.Render().find(line + "\n") != std::string::npos;
  }

  metrics::Metrics metrics_;
  uint64_t bytes_ = 0;
  int reads_ = 0;
  Clock::time_point now_ = Clock::now();
  ResidentGuard guard_{9600,
                       [this] {
                         ++reads_;
                         return bytes_;
                       },
                       &metrics_};
};

TEST_F(ResidentGuardTest, RefusesBulkFirstAndThenAll) {
  EXPECT_FALSE(Refused(Priority::kBulk, 9600));
  EXPECT_TRUE(Refused(Priority::kBulk, 9601));
  EXPECT_FALSE(Refused(Priority::kInteractive, 9601));
  EXPECT_FALSE(Refused(Priority::kInteractive, 10'000));
  EXPECT_TRUE(Refused(Priority::kInteractive, 10'001));
  EXPECT_TRUE(Refused(Priority::kBulk, 10'001));
  EXPECT_TRUE(Prints("penstock_overload_active{class=\"interactive\"} 1"));
  // Below its limit by a thirty-second part it is over.
  EXPECT_TRUE(Refused(Priority::kInteractive, 9'700));
  EXPECT_FALSE(Refused(Priority::kInteractive, 9'680));
  EXPECT_TRUE(Refused(Priority::kBulk, 9'400));
  EXPECT_FALSE(Refused(Priority::kBulk, 9'300));
  EXPECT_FALSE(Refused(Priority::kBulk, 9'600));
  EXPECT_TRUE(Prints("penstock_overload_refused_total{class=\"bulk\"} 3"));
  EXPECT_TRUE(Prints("penstock_overload_refused_total{class=\"interactive\"} 2"));
  EXPECT_TRUE(Prints("penstock_overload_active{class=\"bulk\"} 0"));
  EXPECT_TRUE(Prints("penstock_overload_limit_bytes 9600"));
}

TEST_F(ResidentGuardTest, TellsWhyAndWhenToComeBack) {
  bytes_ = 20'000;
  const Status status = guard_.Check(Priority::kBulk, now_);
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_GT(status.retry_after_s(), 0);
  EXPECT_THAT(status.message(), HasSubstr("20000 bytes; over 9600 no bulk work"));
  EXPECT_THAT(status.message(), HasSubstr("--max-resident-bytes"));
}

TEST_F(ResidentGuardTest, LooksAFewTimesASecond) {
  for (int i = 0; i < 1000; ++i) {
    now_ += std::chrono::milliseconds(1);
    EXPECT_TRUE(guard_.Check(Priority::kInteractive, now_).ok());
  }
  EXPECT_EQ(reads_, 4);
}

TEST_F(ResidentGuardTest, TheHeapIsTrimmedWhileMemoryIsShort) {
  EXPECT_FALSE(guard_.TrimDue(now_));
  ASSERT_TRUE(Refused(Priority::kBulk, 20'000));
  EXPECT_TRUE(guard_.TrimDue(now_));
  EXPECT_FALSE(guard_.TrimDue(now_));
  EXPECT_TRUE(guard_.TrimDue(now_ + ResidentGuard::kTrimEvery));
}

TEST(ResidentGuard, WithoutALimitNothingIsRefusedOrRead) {
  metrics::Metrics metrics;
  ResidentGuard guard(
      0,
      []() -> uint64_t {
        ADD_FAILURE() << "is read";
        return 1;
      },
      &metrics);
  EXPECT_TRUE(guard.Check(Priority::kBulk).ok());
  EXPECT_FALSE(guard.TrimDue());
}

}  // namespace
}  // namespace penstock::api
