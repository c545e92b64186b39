#include "os/topology.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/temp_folder_test_util.h"

namespace penstock {
namespace {

std::vector<int> UpTo(int count) {
  std::vector<int> all;
  for (int i = 0; i < count; ++i) all.push_back(i);
  return all;
}

class TopologyTest : public testing::Test {
 protected:
  // As the system numbers hyper-threads of servers: the second threads of all cores come last.
  // `l3_cores`: cores that share an L3 cache; `node_cores`: that share a memory.
  void MakeMachine(int cores, int threads, int l3_cores, int node_cores) {
    const auto list = [&](int first, int count) {
      std::string text;
      for (int thread = 0; thread < threads; ++thread) {
        if (thread > 0) text += ",";
        text += std::to_string(thread * cores + first);
        if (count > 1) text += "-" + std::to_string(thread * cores + first + count - 1);
      }
      return text + "\n";
    };
    for (int processor = 0; processor < cores * threads; ++processor) {
      const int core = processor % cores;
      const std::string folder = "sys/devices/system/cpu/cpu" + std::to_string(processor);
      temp_.Write(folder + "/topology/thread_siblings_list", list(core, 1));
      temp_.Write(folder + "/cache/index0/level", "1\n");
      temp_.Write(folder + "/cache/index0/shared_cpu_list", list(core, 1));
      temp_.Write(folder + "/cache/index3/level", "3\n");
      temp_.Write(folder + "/cache/index3/shared_cpu_list",
                  list(core / l3_cores * l3_cores, l3_cores));
    }
    for (int node = 0; node * node_cores < cores; ++node) {
      temp_.Write("sys/devices/system/node/node" + std::to_string(node) + "/cpulist",
                  list(node * node_cores, node_cores));
    }
  }
  Topology Read(const std::vector<int>& processors) const {
    return ReadTopologyIn(temp_.text(), processors);
  }
  const TempFolder temp_;
};

TEST_F(TopologyTest, ATwoSocketServer) {
  MakeMachine(64, 2, 8, 32);
  const Topology topology = Read(UpTo(128));
  EXPECT_EQ(topology.Text(), "64 cores with 2 threads each, 8 L3 caches, 2 memory nodes");
  EXPECT_EQ(topology.processors(), 128u);
  ASSERT_EQ(topology.cores.size(), 64u);
  EXPECT_EQ(topology.cores[9].processors, (std::vector<int>{9, 73}));
  EXPECT_EQ(topology.cores[9].l3, 1u);
  EXPECT_EQ(topology.cores[31].node, 0u);
  EXPECT_EQ(topology.cores[32].node, 1u);
  EXPECT_EQ(topology.cores[32].l3, 4u);
}

TEST_F(TopologyTest, ThePartThatAffinityLeaves) {
  MakeMachine(64, 2, 8, 32);
  // Second threads alone, of two L3 caches of the second socket.
  const Topology topology = Read({64 + 40, 64 + 41, 64 + 48});
  EXPECT_EQ(topology.Text(), "3 cores, 2 L3 caches");
  EXPECT_EQ(topology.cores[2].processors, std::vector<int>{112});
  EXPECT_EQ(topology.cores[2].l3, 1u);
  // One core whole, another by one of its threads.
  EXPECT_EQ(Read({0, 1, 64}).Text(), "2 cores with 3 threads");
  EXPECT_EQ(Read({5}).Text(), "1 core");
}

TEST_F(TopologyTest, ASystemThatTellsNothing) {
  EXPECT_EQ(Read(UpTo(4)).Text(), "4 cores");
  EXPECT_EQ(Read({3, 7}).cores[1].processors, std::vector<int>{7});
}

TEST_F(TopologyTest, FilesThatAreDamaged) {
  for (const char* bad : {"", "x", "-1", "3-1", "1,,2", "1-", "99999999999", "0-4000000000"}) {
    temp_.Write("sys/devices/system/cpu/cpu0/topology/thread_siblings_list", bad);
    temp_.Write("sys/devices/system/node/node0/cpulist", bad);
    EXPECT_EQ(Read({0, 1}).Text(), "2 cores") << bad;
  }
}

TEST(ProcessorList, AsTheSystemWritesThem) {
  EXPECT_EQ(ParseProcessorList("0-3,8,10-11\n"), (std::vector<int>{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(ParseProcessorList("5"), std::vector<int>{5});
  EXPECT_TRUE(ParseProcessorList("1 2").empty());
}

TEST(Topology, OfThisMachine) {
  const Topology topology = ReadTopology();
  EXPECT_GE(topology.cores.size(), 1u);
  EXPECT_EQ(topology.processors(), AllowedProcessors().size());
}

}  // namespace
}  // namespace penstock
