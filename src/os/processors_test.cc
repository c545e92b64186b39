#include "os/processors.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/temp_folder_test_util.h"

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

// Cores of `threads` hyper-threads, numbered one after the other, `l3_cores` to an L3 cache.
Topology Cores(int cores, int threads, int l3_cores) {
  Topology topology;
  for (int core = 0; core < cores; ++core) {
    std::vector<int> processors;
    for (int thread = 0; thread < threads; ++thread) processors.push_back(core * threads + thread);
    topology.cores.push_back({processors, static_cast<size_t>(core / l3_cores), 0});
  }
  topology.l3_domains = topology.cores.back().l3 + 1;
  return topology;
}

std::string Planned(size_t wanted, bool pin, const ProcessorLimits& limits,
                    const Topology& topology) {
  const ThreadPlan made = PlanThreads(wanted, pin, limits, topology);
  std::string text = std::to_string(made.threads);
  return text + (made.places.empty() ? "" : " pinned") + (made.spin ? " spin" : "");
}

TEST(PlanThreads, PinsWhereTheMachineIsOursAndSpinsWhereNoQuotaCutsIn) {
  const ProcessorLimits whole{8, 8, 0, nullptr}, cut{8, 8, 2.5, "cpu.max"};
  const Topology machine = Cores(8, 1, 8);
  EXPECT_EQ(Planned(0, true, whole, machine), "8 pinned spin");
  EXPECT_EQ(Planned(8, true, whole, machine), "8 pinned spin");
  EXPECT_EQ(Planned(8, false, whole, machine), "8 spin");
  EXPECT_EQ(Planned(4, true, whole, machine), "4 spin");  // others may have the rest
  EXPECT_EQ(Planned(12, true, whole, machine), "8 pinned spin");
  EXPECT_EQ(Planned(0, true, cut, machine), "2");
  EXPECT_EQ(Planned(8, true, cut, machine), "8");
}

TEST(PlanThreads, TellsWhichProcessorsAreNearWhichMemory) {
  Topology machine = Cores(4, 2, 2);
  EXPECT_TRUE(PlanThreads(0, true, {8, 8, 0, nullptr}, machine).nodes.empty());
  machine.cores[2].node = machine.cores[3].node = 1;
  machine.nodes = 2;
  const ThreadPlan plan = PlanThreads(3, false, {8, 8, 0, nullptr}, machine);
  EXPECT_EQ(plan.nodes, (std::vector<std::vector<int>>{{0, 1, 2, 3}, {4, 5, 6, 7}}));
}

TEST(PlanThreads, AThreadACoreHasAllItsHyperThreadsToRunOn) {
  const ProcessorLimits whole{16, 16, 0, nullptr};
  const Topology machine = Cores(8, 2, 4);
  EXPECT_EQ(Planned(0, true, whole, machine), "8 pinned spin");
  const ThreadPlan cores = PlanThreads(0, true, whole, machine);
  EXPECT_EQ(cores.places[3], (std::vector<int>{6, 7}));
  EXPECT_EQ(cores.l3, (std::vector<size_t>{0, 0, 0, 0, 1, 1, 1, 1}));
  const ThreadPlan threads = PlanThreads(16, true, whole, machine);
  EXPECT_EQ(threads.places.size(), 16u);
  EXPECT_EQ(threads.places[3], std::vector<int>{6});
  EXPECT_EQ(threads.places[8], std::vector<int>{1});
  EXPECT_EQ(threads.l3[3], 0u);
  EXPECT_EQ(threads.l3[4], 1u);
  EXPECT_EQ(threads.l3[8], 0u);
  EXPECT_EQ(Planned(12, true, whole, machine), "12 spin");
  // Under a quota of 12 processors cores are not counted: the quota is of time.
  EXPECT_EQ(Planned(0, true, {16, 16, 12, "cpu.max"}, machine), "12");
}

}  // namespace
}  // namespace penstock
