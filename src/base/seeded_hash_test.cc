#include "base/seeded_hash.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>

#include "base/one_hash_test_util.h"

namespace penstock {
namespace {

TEST(SeededHash, SpreadsTextsThatShareAHashElsewhere) {
  const auto texts = TextsOfOneHash(2000);
  std::set<size_t> known, seeded;
  for (const std::string& text : texts) {
    known.insert(std::hash<std::string>()(text));
    seeded.insert(SeededHash()(text));
  }
  EXPECT_EQ(std::set<std::string>(texts.begin(), texts.end()).size(), 2000u);
#ifdef __GLIBCXX__
  EXPECT_EQ(known.size(), 1u) << "the texts are of use";
#endif
  EXPECT_EQ(seeded.size(), 2000u);
}

TEST(SeededHash, FindsAllKindsOfTexts) {
  SeededMap<std::string, int> map = {{"a", 1}};
  EXPECT_EQ(map.find(std::string_view("a"))->second, 1);
  EXPECT_EQ(map.find("a")->second, 1);
  EXPECT_TRUE(map.find("b") == map.end());
  EXPECT_NE(HashBytes("penstock", 1), HashBytes("penstock", 2));
}

TEST(SeededHash, SpreadsNumbersThatShareABucket) {
  constexpr uint64_t kBuckets = 351'061;  // a size that tables have
  std::set<uint64_t> places;
  for (uint64_t i = 0; i < 1000; ++i) places.insert(HashWord(i * kBuckets, HashSeed()) % kBuckets);
  EXPECT_GT(places.size(), 900u);
}

}  // namespace
}  // namespace penstock
