// ShardedLru: bytes to bytes, bounded by bytes, least recently used out first, with a time to live.
//
//   key --hash--> shard: mutex | buckets -> entries chained | list by last use, newest first
//
// A key is a number, which names the owner of the bytes (a model), and bytes. An entry is one block
// of memory: links, hash, times, then the bytes of key and value. The bound counts these blocks and
// the buckets, so it is memory, not payload. Keys are compared whole: equal hashes cost a
// comparison and never give a wrong answer. The hash is seeded anew in each process, so that
// clients cannot prepare keys that collide.
//
// Any thread may call anything. A shard's lock is held for a look-up and the copy of one value.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/cache_metrics.h"

namespace penstock::cache {

struct LruOptions {
  size_t bytes_max = 0;  // of all shards together; 0: nothing is ever held
  // An entry bigger than this is not taken. 0: an eighth of a shard.
  size_t entry_bytes_max = 0;
  std::chrono::seconds ttl{0};  // from Put on; 0: for ever
  size_t shards = 16;           // 1 to 256; fewer where bytes_max is small
  std::function<std::chrono::steady_clock::time_point()> now;  // for tests
};

class ShardedLru {
 public:
  // `metrics` must outlive the cache.
  ShardedLru(const LruOptions& options, const CacheMetrics* metrics);
  ~ShardedLru();
  ShardedLru(const ShardedLru&) = delete;
  ShardedLru& operator=(const ShardedLru&) = delete;

  bool enabled() const { return bytes_max_ > 0; }

  // True: found, and `use` was called with the value under the shard's lock, so it should copy and
  // return. Counts a hit or a miss.
  template <typename Use>
  bool Get(uint64_t space, std::string_view key, Use&& use) {
    const UseFn call = [](void* context, std::span<const std::byte> value) {
      (*static_cast<std::remove_reference_t<Use>*>(context))(value);
    };
    return GetWith(space, key, call, &use);
  }
  // Replaces the entry of this key. The value is the parts, one after the other.
  void Put(uint64_t space, std::string_view key,
           std::initializer_list<std::span<const std::byte>> parts);

  void Clear();
  size_t bytes() const;  // held now
  size_t entries() const;

 private:
  struct Entry;
  struct Shard;
  using UseFn = void (*)(void* context, std::span<const std::byte> value);

  bool GetWith(uint64_t space, std::string_view key, UseFn use, void* context);
  Shard& ShardOf(uint64_t hash) const;
  uint64_t Hash(uint64_t space, std::string_view key) const;
  int64_t Now() const;  // ns
  void Account(int64_t bytes) const;

  size_t bytes_max_;
  size_t entry_bytes_max_ = 0;
  int64_t ttl_ns_;
  uint64_t seed_;
  std::function<std::chrono::steady_clock::time_point()> now_;
  const CacheMetrics* const metrics_;
  size_t shard_count_ = 1;
  std::unique_ptr<Shard[]> shards_;
};

}  // namespace penstock::cache
