#include "kv/id_set.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace penstock::kv {
namespace {

TEST(IdSet, IsASetThatKnowsItsEnds) {
  for (const int32_t size : {1, 63, 64, 65, 4096, 4097, 300000}) {
    IdSet ids(size);
    std::set<int32_t> want;
    std::mt19937 random(static_cast<uint32_t>(size));
    EXPECT_EQ(ids.First(), -1);
    EXPECT_EQ(ids.Last(), -1);
    for (int i = 0; i < 20000; ++i) {
      // Grows for a while, then shrinks until it is empty.
      const bool insert = random() % 100 < (i % 4000 < 2000 ? 70u : 20u);
      auto id = static_cast<int32_t>(random() % static_cast<uint32_t>(size));
      if (insert) {
        ids.Insert(id);
        want.insert(id);
      } else {
        if (!want.empty() && i % 2 == 0) id = *want.begin();
        ids.Erase(id);
        want.erase(id);
      }
      ASSERT_EQ(ids.Has(id), want.count(id) == 1);
      ASSERT_EQ(ids.First(), want.empty() ? -1 : *want.begin());
      ASSERT_EQ(ids.Last(), want.empty() ? -1 : *want.rbegin());
    }
  }
}

}  // namespace
}  // namespace penstock::kv
