#include "os/memory.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/temp_folder_test_util.h"

namespace penstock {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kOwnHeap = false;  // the sanitizers bring heaps of their own
#else
constexpr bool kOwnHeap = true;
#endif

TEST(Memory, FreeBlocksGoBack) {
  if (!kOwnHeap) GTEST_SKIP() << "the heap is the sanitizer's";
  constexpr size_t kBlockBytes = 64 << 10, kBlocks = 1024;
  const uint64_t before = ResidentBytes();
  ASSERT_GT(before, 0u);
  // Two kinds of blocks in turn: the freed ones lie between blocks that stay, which are too many to
  // fit holes that earlier tests left.
  std::vector<std::unique_ptr<char[]>> freed, kept;
  for (size_t i = 0; i < kBlocks; ++i) {
    freed.push_back(std::make_unique_for_overwrite<char[]>(kBlockBytes));
    std::memset(freed.back().get(), 1, kBlockBytes);
    kept.push_back(std::make_unique_for_overwrite<char[]>(16 << 10));
  }
  const uint64_t full = ResidentBytes();
  EXPECT_GT(full, before + kBlocks * kBlockBytes * 9 / 10);
  freed.clear();
  EXPECT_GT(FreeHeapBytes(), kBlocks * kBlockBytes * 9 / 10);
  TrimHeap();
  EXPECT_LT(ResidentBytes(), full - kBlocks * kBlockBytes / 2);
}

class AvailableBytesTest : public testing::Test {
 protected:
  void SetUp() override { Write("/proc/meminfo", "MemTotal: 8000 kB\nMemAvailable:    4000 kB\n"); }
  void Write(const std::string& path, const std::string& text) {
    temp_.Write(path.substr(1), text);  // an absolute path below the folder
  }
  const TempFolder temp_;
  const std::string root_ = temp_.text();
};

TEST_F(AvailableBytesTest, IsWhatTheSystemHasLeft) {
  EXPECT_EQ(AvailableBytesIn(root_), 4000u * 1024);
}

TEST_F(AvailableBytesTest, FollowsTheLimitsOfGroupsOfVersion2) {
  Write("/proc/self/cgroup", "0::/a/b\n");
  Write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  Write("/sys/fs/cgroup/a/b/memory.current", "1000\n");
  EXPECT_EQ(AvailableBytesIn(root_), 4000u * 1024);
  Write("/sys/fs/cgroup/a/memory.max", "1000000\n");  // of the group above
  Write("/sys/fs/cgroup/a/memory.current", "600000\n");
  Write("/sys/fs/cgroup/a/memory.stat", "anon 400000\ninactive_file 200000\n");
  EXPECT_EQ(AvailableBytesIn(root_), 600000u);
  Write("/sys/fs/cgroup/a/b/memory.max", "1500\n");
  EXPECT_EQ(AvailableBytesIn(root_), 500u);
}

TEST_F(AvailableBytesTest, FollowsTheLimitsOfGroupsOfVersion1) {
  Write("/proc/self/cgroup", "9:name=systemd:/\n4:cpu,memory:/box\n");
  Write("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "100000\n");
  Write("/sys/fs/cgroup/memory/box/memory.usage_in_bytes", "90000\n");
  Write("/sys/fs/cgroup/memory/box/memory.stat", "total_inactive_file 30000\n");
  EXPECT_EQ(AvailableBytesIn(root_), 40000u);
  // In a container the mount is the group.
  std::filesystem::rename(root_ + "/sys/fs/cgroup/memory/box/memory.stat",
                          root_ + "/sys/fs/cgroup/memory/memory.stat");
  std::filesystem::rename(root_ + "/sys/fs/cgroup/memory/box/memory.limit_in_bytes",
                          root_ + "/sys/fs/cgroup/memory/memory.limit_in_bytes");
  std::filesystem::rename(root_ + "/sys/fs/cgroup/memory/box/memory.usage_in_bytes",
                          root_ + "/sys/fs/cgroup/memory/memory.usage_in_bytes");
  EXPECT_EQ(AvailableBytesIn(root_), 40000u);
}

TEST_F(AvailableBytesTest, TheLimitIsTheLeastOfMachineAndGroups) {
  EXPECT_EQ(MemoryLimitBytesIn("/no such folder"), 0u);
  Write("/proc/meminfo", "MemTotal:        5000 kB\nMemAvailable:    4000 kB\n");
  Write("/proc/self/cgroup", "0::/a/b\n");
  Write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  EXPECT_EQ(MemoryLimitBytesIn(root_), 5000u * 1024);
  Write("/sys/fs/cgroup/a/memory.max", "1000000\n");
  EXPECT_EQ(MemoryLimitBytesIn(root_), 1000000u);
  EXPECT_GT(MemoryLimitBytes(), 0u);
}

TEST(PrivateResidentBytes, AreLessThanAllResidentOnes) {
  EXPECT_GT(PrivateResidentBytes(), 0u);
  EXPECT_LT(PrivateResidentBytes(), ResidentBytes()) << "the program itself is a mapped file";
}

}  // namespace
}  // namespace penstock
