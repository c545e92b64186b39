// Pages of a cache: taken as blocks are written, given back for whole groups.
#include "cpu/kv_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <numeric>
#include <vector>

namespace penstock::cpu {
namespace {

struct Shape {
  uint64_t head_bytes;
  int64_t heads;
  int32_t blocks;
};

class Pages {
 public:
  explicit Pages(const Shape& shape)
      : shape_(shape), pages_(*KvPages::Reserve(shape.head_bytes, shape.heads, shape.blocks)) {}

  KvPages* operator->() { return &pages_; }
  uint64_t group_bytes() const { return pages_.block_bytes() * uint64_t{kKvGroup}; }

  void Write(int32_t block) {
    pages_.WillWrite(block);
    for (int64_t head = 0; head < shape_.heads; ++head) {
      std::memset(At(block, head), Value(block, head), shape_.head_bytes);
    }
  }
  bool Holds(int32_t block) {
    for (int64_t head = 0; head < shape_.heads; ++head) {
      const uint8_t* at = At(block, head);
      for (uint64_t i = 0; i < shape_.head_bytes; ++i) {
        if (at[i] != Value(block, head)) return false;
      }
    }
    return true;
  }
  // Of groups [first, end), as the system tells.
  uint64_t Resident(int32_t first, int32_t end) {
    const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    const uint64_t from = static_cast<uint64_t>(first) * group_bytes() / page * page;
    const uint64_t bytes = static_cast<uint64_t>(end) * group_bytes() - from;
    std::vector<unsigned char> in_memory((bytes + page - 1) / page);
    EXPECT_EQ(mincore(pages_.HeadData(0) + from, bytes, in_memory.data()), 0);
    uint64_t resident = 0;
    for (const unsigned char one : in_memory) resident += (one & 1) * page;
    return resident;
  }

 private:
  uint8_t* At(int32_t block, int64_t head) {
    return pages_.HeadData(static_cast<size_t>(head)) +
           static_cast<uint64_t>(pages_.PlaceOf(block)) * shape_.head_bytes;
  }
  static uint8_t Value(int32_t block, int64_t head) {
    return static_cast<uint8_t>(1 + (block * 7 + head) % 255);
  }

  const Shape shape_;
  KvPages pages_;
};

std::vector<int32_t> Ids(int32_t first, int32_t end) {
  std::vector<int32_t> ids(static_cast<size_t>(end - first));
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

TEST(KvPages, ReleaseGivesWholeGroupsBack) {
  Pages pages({8192, 96, 20});  // groups of 6 MB: 8, 8 and 4 blocks
  EXPECT_EQ(pages->CommittedBytes(), 0u);
  EXPECT_EQ(pages.Resident(0, 3), 0u);
  for (int32_t block = 0; block < 20; ++block) pages.Write(block);
  EXPECT_EQ(pages->CommittedBytes(), 3 * pages.group_bytes());
  EXPECT_EQ(pages.Resident(0, 2), 2 * pages.group_bytes());

  EXPECT_EQ(pages->Release(Ids(1, 8)), 0u);  // not whole
  EXPECT_EQ(pages->Release({}), 0u);
  for (int32_t block = 0; block < 20; ++block) EXPECT_TRUE(pages.Holds(block)) << block;

  std::vector<int32_t> mixed = Ids(8, 16);
  std::swap(mixed[0], mixed[5]);
  mixed.push_back(3);
  mixed.push_back(3);
  EXPECT_EQ(pages->Release(mixed), pages.group_bytes());
  EXPECT_EQ(pages->CommittedBytes(), 2 * pages.group_bytes());
  EXPECT_EQ(pages.Resident(1, 2), 0u);
  for (int32_t block = 0; block < 8; ++block) EXPECT_TRUE(pages.Holds(block)) << block;
  for (int32_t block = 16; block < 20; ++block) EXPECT_TRUE(pages.Holds(block)) << block;

  EXPECT_EQ(pages->Release(mixed), 0u);                         // already
  EXPECT_EQ(pages->Release(Ids(16, 20)), pages.group_bytes());  // the last group, of 4
  EXPECT_EQ(pages->Release(Ids(0, 8)), pages.group_bytes());
  EXPECT_EQ(pages->CommittedBytes(), 0u);
  EXPECT_EQ(pages.Resident(0, 3), 0u);

  pages.Write(9);  // a block of a group commits the group
  pages.Write(10);
  EXPECT_EQ(pages->CommittedBytes(), pages.group_bytes());
  EXPECT_TRUE(pages.Holds(9));
}

// Groups that begin and end within pages: the neighbours keep theirs.
TEST(KvPages, ReleaseSparesNeighboursOnTheSamePage) {
  for (const Shape& shape : {Shape{4160, 3, 64}, Shape{64, 5, 64}}) {
    Pages pages(shape);
    const auto write_all = [&] {
      for (int32_t block = 0; block < shape.blocks; ++block) pages.Write(block);
    };
    for (int32_t first = 0; first < 8; ++first) {
      for (int32_t end = first + 1; end <= 8; ++end) {
        write_all();
        EXPECT_EQ(pages->Release(Ids(first * kKvGroup, end * kKvGroup)),
                  static_cast<uint64_t>(end - first) * pages.group_bytes());
        for (int32_t block = 0; block < shape.blocks; ++block) {
          const bool given = block >= first * kKvGroup && block < end * kKvGroup;
          ASSERT_TRUE(given || pages.Holds(block)) << first << " " << end << " " << block;
        }
      }
    }
    // One after the other, in an order in which each kind of neighbour is met.
    write_all();
    for (const int32_t group : {3, 1, 2, 7, 0, 5, 4, 6}) {
      for (int32_t block = 0; block < shape.blocks; ++block) {
        if (block / kKvGroup == group) EXPECT_TRUE(pages.Holds(block));
      }
      pages->Release(Ids(group * kKvGroup, (group + 1) * kKvGroup));
    }
    EXPECT_EQ(pages->CommittedBytes(), 0u);
    if (pages.group_bytes() >= static_cast<uint64_t>(sysconf(_SC_PAGESIZE))) {
      EXPECT_EQ(pages.Resident(0, 8), 0u);
    }
  }
}

TEST(KvPages, MovesWithItsPages) {
  auto from = *KvPages::Reserve(4096, 4, 16);
  from.WillWrite(9);
  KvPages to = std::move(from);
  EXPECT_EQ(to.CommittedBytes(), 8u * 4 * 4096);
  KvPages assigned;
  assigned = std::move(to);
  EXPECT_EQ(assigned.CommittedBytes(), 8u * 4 * 4096);
  EXPECT_EQ(assigned.Release(Ids(8, 16)), 8u * 4 * 4096);
}

}  // namespace
}  // namespace penstock::cpu
