#include "cache/sharded_lru.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <thread>

#include "base/status.h"

namespace penstock::cache {
namespace {

using std::chrono::seconds;

class ShardedLruTest : public testing::Test {
 protected:
  std::unique_ptr<ShardedLru> Make(size_t bytes, seconds ttl = seconds(0), size_t shards = 1) {
    LruOptions options;
    options.bytes_max = bytes;
    options.ttl = ttl;
    options.shards = shards;
    options.now = [this] { return now_; };
    return std::make_unique<ShardedLru>(options, &counters_);
  }
  static std::optional<std::string> Get(ShardedLru* cache, std::string_view key) {
    std::optional<std::string> found;
    const bool hit = cache->Get(0, key, [&](std::span<const std::byte> value) {
      found.emplace(reinterpret_cast<const char*>(value.data()), value.size());
    });
    EXPECT_EQ(hit, found.has_value());
    return found;
  }
  static void Put(ShardedLru* cache, std::string_view key, std::string_view value) {
    cache->Put(0, key, {std::as_bytes(std::span(value))});
  }

  metrics::Metrics metrics_;
  CacheMetrics counters_ = MakeCacheMetrics("token", &metrics_);
  std::chrono::steady_clock::time_point now_{seconds(1000)};
};

TEST_F(ShardedLruTest, GivesBackWhatWasPut) {
  const auto cache = Make(1 << 20);
  EXPECT_EQ(Get(cache.get(), "a"), std::nullopt);
  Put(cache.get(), "a", "one");
  Put(cache.get(), "", "");
  const std::string binary("\0x\0", 3);
  Put(cache.get(), binary, binary);
  EXPECT_EQ(Get(cache.get(), "a"), "one");
  EXPECT_EQ(Get(cache.get(), ""), "");
  EXPECT_EQ(Get(cache.get(), binary), binary);
  EXPECT_EQ(Get(cache.get(), std::string_view("\0x", 2)), std::nullopt);
  Put(cache.get(), "a", "another");
  EXPECT_EQ(Get(cache.get(), "a"), "another");
  EXPECT_EQ(cache->entries(), 3u);
  EXPECT_EQ(counters_.hits->value(), 4u);
  EXPECT_EQ(counters_.misses->value(), 2u);
  const std::string one = "one", two = "two";
  cache->Put(0, "parts", {std::as_bytes(std::span(one)), {}, std::as_bytes(std::span(two))});
  EXPECT_EQ(Get(cache.get(), "parts"), "onetwo");
}

TEST_F(ShardedLruTest, OldestGoesFirstAndAHitMakesNew) {
  const auto cache = Make(64 << 10);
  const std::string value(4000, 'v');
  for (int i = 0; i < 12; ++i) Put(cache.get(), std::to_string(i), value);
  EXPECT_EQ(counters_.evictions->value(), 0u);
  EXPECT_TRUE(Get(cache.get(), "0"));
  for (int i = 12; counters_.evictions->value() < 4; ++i) {
    Put(cache.get(), std::to_string(i), value);
  }
  EXPECT_TRUE(Get(cache.get(), "0"));
  for (int i = 1; i <= 4; ++i) EXPECT_FALSE(Get(cache.get(), std::to_string(i))) << i;
  for (int i = 5; i < 12; ++i) EXPECT_TRUE(Get(cache.get(), std::to_string(i))) << i;
}

TEST_F(ShardedLruTest, TimeToLive) {
  const auto cache = Make(1 << 20, seconds(10));
  Put(cache.get(), "a", "1");
  now_ += seconds(9);
  EXPECT_TRUE(Get(cache.get(), "a"));  // a look does not make it live longer
  Put(cache.get(), "b", "2");
  now_ += seconds(1);
  EXPECT_FALSE(Get(cache.get(), "a"));
  EXPECT_EQ(counters_.expired->value(), 1u);
  EXPECT_EQ(cache->entries(), 1u);
  EXPECT_TRUE(Get(cache.get(), "b"));
  // b is not asked for again: the next entry evicts it.
  now_ += seconds(100);
  Put(cache.get(), "c", "3");
  EXPECT_EQ(cache->entries(), 1u);
  EXPECT_EQ(counters_.expired->value(), 2u);
  EXPECT_EQ(counters_.evictions->value(), 0u);
}

TEST_F(ShardedLruTest, SpacesAreApart) {
  const auto cache = Make(1 << 20);
  const std::string one = "one", two = "two";
  cache->Put(1, "a", {std::as_bytes(std::span(one))});
  EXPECT_FALSE(cache->Get(2, "a", [](auto) {}));
  cache->Put(2, "a", {std::as_bytes(std::span(two))});
  EXPECT_TRUE(cache->Get(1, "a", [](auto value) { EXPECT_EQ(char(value[1]), 'n'); }));
  EXPECT_TRUE(cache->Get(2, "a", [](auto value) { EXPECT_EQ(char(value[1]), 'w'); }));
}

TEST_F(ShardedLruTest, OffHoldsNothing) {
  const auto cache = Make(0);
  EXPECT_FALSE(cache->enabled());
  Put(cache.get(), "a", "1");
  EXPECT_FALSE(Get(cache.get(), "a"));
  EXPECT_EQ(counters_.misses->value(), 0u);
}

TEST_F(ShardedLruTest, BigEntriesAreNotTaken) {
  const auto cache = Make(80 << 10);
  Put(cache.get(), "a", std::string(11 << 10, 'x'));  // over an eighth
  EXPECT_FALSE(Get(cache.get(), "a"));
  Put(cache.get(), "a", std::string(9 << 10, 'x'));
  EXPECT_TRUE(Get(cache.get(), "a"));
}

// Against a map that never forgets: a hit is always the last value put; memory stays in bounds, and
// the gauge equals it.
TEST_F(ShardedLruTest, RandomUse) {
  for (const size_t shards : {1, 16}) {
    const size_t bound = 8 << 20;
    const auto cache = Make(bound, seconds(50), shards);
    const int64_t gauge = counters_.bytes->value();
    const size_t empty = cache->bytes();
    std::map<std::string, std::pair<std::string, std::chrono::steady_clock::time_point>> truth;
    std::mt19937 random(7);
    size_t hits = 0;
    for (int i = 0; i < 60'000; ++i) {
      const std::string key = "key" + std::to_string(random() % 20'000);
      if (random() % 500 == 0) now_ += seconds(1);
      if (random() % 2 == 0) {
        const std::string value(random() % 2000, static_cast<char>('a' + random() % 26));
        Put(cache.get(), key, value);
        truth[key] = {value, now_};
      } else if (const auto found = Get(cache.get(), key)) {
        ASSERT_TRUE(truth.contains(key));
        ASSERT_EQ(*found, truth[key].first);
        ASSERT_LT(now_ - truth[key].second, seconds(50));
        ++hits;
      }
      if (i % 64 != 0) continue;
      ASSERT_LE(cache->bytes(), bound);
    }
    EXPECT_GT(hits, 1000u);
    EXPECT_EQ(counters_.bytes->value() - gauge, static_cast<int64_t>(cache->bytes() - empty));
    cache->Clear();
    EXPECT_EQ(cache->entries(), 0u);
    EXPECT_EQ(counters_.bytes->value(), gauge);
  }
  EXPECT_GT(counters_.evictions->value(), 0u);
  EXPECT_GT(counters_.expired->value(), 0u);
}

TEST_F(ShardedLruTest, ManyThreads) {
  LruOptions options;
  options.bytes_max = 2 << 20;
  options.ttl = seconds(1);
  ShardedLru cache(options, &counters_);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&cache, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 20'000; ++i) {
        const uint32_t n = random() % 3000;
        const std::string key = "k" + std::to_string(n);
        // The value says which key it belongs to.
        const std::string value(100 + n, static_cast<char>('a' + n % 26));
        if (random() % 3 == 0) {
          cache.Put(0, key, {std::as_bytes(std::span(value))});
        } else {
          cache.Get(0, key, [&](std::span<const std::byte> found) {
            PENSTOCK_CHECK(found.size() == value.size() &&
                           std::memcmp(found.data(), value.data(), value.size()) == 0);
          });
        }
        if (t == 0 && i % 5000 == 4999) cache.Clear();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_GT(counters_.hits->value(), 1000u);
  EXPECT_LE(cache.bytes(), options.bytes_max);
}

}  // namespace
}  // namespace penstock::cache
