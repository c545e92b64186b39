#include "sample/token_counts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

namespace penstock::sample {
namespace {

// Against plain lists, for windows shorter than, as long as and longer than what comes; used over
// and over, as a sampler is not, and with ids that fall on the same slots.
TEST(TokenCounts, AgreesWithPlainLists) {
  std::mt19937 random(5);
  TokenCounts counts;
  for (const int32_t window : {-1, 0, 1, 7, 64, 1000}) {
    for (const size_t reserved : {0u, 10u, 500u}) {
      counts.Reset(window, reserved);
      EXPECT_TRUE(counts.entries().empty());
      std::vector<int32_t> all, generated;
      const auto id = [&] { return static_cast<int32_t>(random() % 40 * 65536 + random() % 3); };
      for (int i = 0; i < 90; ++i) all.push_back(id());
      counts.AddPrompt(all);
      for (int step = 0; step < 200; ++step) {
        const int32_t next = id();
        all.push_back(next);
        generated.push_back(next);
        counts.AddGenerated(next);
        std::map<int32_t, uint32_t> recent, made;
        const size_t n =
            window < 0 ? all.size() : std::min(all.size(), static_cast<size_t>(window));
        for (size_t k = all.size() - n; k < all.size(); ++k) ++recent[all[k]];
        for (const int32_t g : generated) ++made[g];
        for (const int32_t seen : all) {
          const TokenCounts::Entry* entry = counts.Find(seen);
          ASSERT_EQ(entry != nullptr ? entry->recent : 0, recent[seen]) << window;
          ASSERT_EQ(entry != nullptr ? entry->generated : 0, made[seen]) << window;
        }
      }
      EXPECT_EQ(counts.Find(999), nullptr);
      std::vector<int32_t> distinct;
      for (const TokenCounts::Entry& entry : counts.entries()) distinct.push_back(entry.id);
      std::sort(distinct.begin(), distinct.end());
      EXPECT_EQ(std::adjacent_find(distinct.begin(), distinct.end()), distinct.end());
    }
  }
}

TEST(TokenCounts, IsEmptyBeforeItsFirstReset) {
  TokenCounts counts;
  EXPECT_EQ(counts.Find(1), nullptr);
  counts.AddGenerated(1);
  ASSERT_NE(counts.Find(1), nullptr);
  EXPECT_EQ(counts.Find(1)->generated, 1u);
}

}  // namespace
}  // namespace penstock::sample
