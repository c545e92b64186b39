#include "common/processors.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "common/temp_folder_test_util.h"

namespace penstock {
namespace {

class ProcessorsTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    temp_.Write(path.substr(1), text);  // an absolute path below the folder
  }
  ProcessorLimits Read(size_t online = 64, size_t allowed = 64) const {
    return ReadProcessorLimitsIn(root_, online, allowed);
  }
  const TempFolder temp_;
  const std::string root_ = temp_.text();
};

TEST_F(ProcessorsTest, WithoutAQuotaTheAffinityCounts) {
  EXPECT_EQ(Read().Text(), "64 processors");
  EXPECT_EQ(Read(64, 8).Text(), "8 of 64 processors (affinity)");
  EXPECT_EQ(Read(1, 1).Text(), "1 processor");
  EXPECT_EQ(Read(64, 8).usable(), 8u);
  EXPECT_FALSE(Read().cut());
}

TEST_F(ProcessorsTest, QuotasOfVersion2OfTheGroupAndThoseAboveIt) {
  Write("/proc/self/cgroup", "0::/pod/box\n");
  Write("/sys/fs/cgroup/pod/box/cpu.max", "max 100000\n");
  EXPECT_EQ(Read().usable(), 64u);
  Write("/sys/fs/cgroup/pod/cpu.max", "250000 100000\n");
  EXPECT_EQ(Read().usable(), 2u);
  EXPECT_EQ(Read().Text(), "2 of 64 processors (cpu.max)");
  EXPECT_DOUBLE_EQ(Read().quota, 2.5);
  Write("/sys/fs/cgroup/pod/box/cpu.max", "20000 50000\n");
  EXPECT_EQ(Read().usable(), 1u);  // 0.4 of one
  EXPECT_EQ(Read().Text(), "1 of 64 processors (cpu.max)");
  // The mount itself, as a container sees its group.
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/cpu.max", "300000 100000\n");
  EXPECT_EQ(Read().usable(), 3u);
}

TEST_F(ProcessorsTest, QuotasOfVersion1) {
  Write("/proc/self/cgroup", "9:name=systemd:/\n4:cpu,cpuacct:/box\n0::/\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "-1\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Read().Text(), "64 processors");
  Write("/sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us", "150000\n");
  EXPECT_EQ(Read().Text(), "1 of 64 processors (cpu.cfs_quota_us)");
  Write("/proc/self/cgroup", "1:cpu:/box\n");
  EXPECT_EQ(Read().usable(), 64u);
  Write("/sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "400000\n");
  Write("/sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Read().usable(), 4u);
}

TEST_F(ProcessorsTest, AQuotaOverTheAffinityCutsNothing) {
  Write("/sys/fs/cgroup/cpu.max", "800000 100000\n");  // no group is told
  EXPECT_EQ(Read(64, 4).Text(), "4 of 64 processors (affinity)");
  EXPECT_FALSE(Read(64, 4).cut());
  EXPECT_EQ(Read(64, 16).usable(), 8u);
  Write("/sys/fs/cgroup/cpu.max", "nonsense\n");
  EXPECT_EQ(Read().usable(), 64u);
  Write("/sys/fs/cgroup/cpu.max", "100000\n");  // no period
  EXPECT_EQ(Read().usable(), 64u);
}

TEST(PlanThreads, PinsWhereTheMachineIsOursAndSpinsWhereNoQuotaCutsIn) {
  const ProcessorLimits whole{8, 8, 0, nullptr}, cut{8, 8, 2.5, "cpu.max"};
  const auto plan = [](size_t wanted, bool pin, const ProcessorLimits& limits) {
    const ThreadPlan made = PlanThreads(wanted, pin, limits);
    return std::to_string(made.threads) + (made.pin ? " pinned" : "") + (made.spin ? " spin" : "");
  };
  EXPECT_EQ(plan(0, true, whole), "8 pinned spin");
  EXPECT_EQ(plan(8, true, whole), "8 pinned spin");
  EXPECT_EQ(plan(8, false, whole), "8 spin");
  EXPECT_EQ(plan(4, true, whole), "4 spin");  // others may have the rest
  EXPECT_EQ(plan(12, true, whole), "12 spin");
  EXPECT_EQ(plan(0, true, cut), "2");
  EXPECT_EQ(plan(8, true, cut), "8");
}

}  // namespace
}  // namespace penstock
