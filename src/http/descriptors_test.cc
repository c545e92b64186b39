#include "http/descriptors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace penstock::http {
namespace {

TEST(Descriptors, ConnectionsLeaveSomeToTheRest) {
  EXPECT_EQ(ConnectionsThatFit(1 << 20, 2, 4096), 4096);
  EXPECT_EQ(ConnectionsThatFit(INT64_MAX, 256, 1 << 20), 1 << 20);
  EXPECT_EQ(ConnectionsThatFit(4096 + 128 + 6, 2, 4096), 4096);
  EXPECT_EQ(ConnectionsThatFit(4096 + 128 + 6, 4, 4096), 4090);
  EXPECT_EQ(ConnectionsThatFit(1024, 2, 4096), 1024 - 134);
  EXPECT_EQ(ConnectionsThatFit(1024, 2, 16), 16);
  EXPECT_EQ(ConnectionsThatFit(64, 2, 4096), 32);
  EXPECT_EQ(ConnectionsThatFit(0, 2, 4096), 1);
}

TEST(Descriptors, TheLimitIsRaised) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = before.rlim_max == RLIM_INFINITY ? 256 : before.rlim_max / 2;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_GT(RaiseOpenFilesMax(), static_cast<int64_t>(low.rlim_cur));
  rlimit now{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &now), 0);
  EXPECT_EQ(now.rlim_cur, before.rlim_max);
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST(Descriptors, TheSpareOneComesAndGoes) {
  SpareDescriptor spare;
  EXPECT_TRUE(spare.Take());
  spare.Give();
  spare.Give();
  EXPECT_TRUE(spare.Take());
}

}  // namespace
}  // namespace penstock::http
