#include "cache/cache_salt.h"

#include <gtest/gtest.h>

#include <set>

namespace penstock::cache {
namespace {

TEST(CacheSalt, ClientsHaveSaltsOfTheirOwn) {
  std::set<uint64_t> salts;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t salt = CacheSaltOf("secret", "client " + std::to_string(i));
    EXPECT_EQ(salt % 2, 0u);
    salts.insert(salt);
  }
  EXPECT_EQ(salts.size(), 1000u);
  EXPECT_FALSE(salts.contains(0));
  EXPECT_EQ(CacheSaltOf("secret", "client 7"), CacheSaltOf("secret", "client 7"));
  EXPECT_NE(CacheSaltOf("another", "client 7"), CacheSaltOf("secret", "client 7"));
  // What is secret and what is not is told apart.
  EXPECT_NE(CacheSaltOf("ab", "c"), CacheSaltOf("a", "bc"));
}

TEST(CacheSalt, WithoutSecretOrClientAllShare) {
  EXPECT_EQ(CacheSaltOf("", "client"), 0u);
  EXPECT_EQ(CacheSaltOf("secret", ""), 0u);
  EXPECT_NE(NewCacheSecret(), NewCacheSecret());
  EXPECT_EQ(NewCacheSecret().size(), 32u);
}

TEST(CacheSalt, TextsPartASalt) {
  const uint64_t one = CacheSaltOf("secret", "one"), two = CacheSaltOf("secret", "two");
  EXPECT_EQ(JoinCacheSalt(one, ""), one);
  EXPECT_EQ(JoinCacheSalt(one, "a"), JoinCacheSalt(one, "a"));
  const std::set<uint64_t> salts = {one,
                                    two,
                                    JoinCacheSalt(one, "a"),
                                    JoinCacheSalt(one, "b"),
                                    JoinCacheSalt(two, "a"),
                                    JoinCacheSalt(0, "a")};
  EXPECT_EQ(salts.size(), 6u);
  EXPECT_FALSE(salts.contains(0));
}

}  // namespace
}  // namespace penstock::cache
