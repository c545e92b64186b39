#include "cache/sharded_lru.h"

#include <xxhash.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <random>

#include "base/status.h"

namespace penstock::cache {
namespace {

// malloc's overhead per block, about.
constexpr size_t kMallocBytes = 16;
constexpr size_t kBucketsMin = 64;
// A shard smaller than this holds too few entries to be worth a lock of its own.
constexpr size_t kShardBytesMin = 256 << 10;

}  // namespace

struct ShardedLru::Entry {
  Entry* chain;          // next in its bucket
  Entry *newer, *older;  // by last use
  uint64_t hash, space;
  int64_t expires_ns;  // 0: never
  uint32_t key_size, value_size;

  char* key() { return reinterpret_cast<char*>(this + 1); }
  std::byte* value() { return reinterpret_cast<std::byte*>(key() + key_size); }
  size_t bytes() const { return sizeof(Entry) + key_size + value_size + kMallocBytes; }
  bool Is(uint64_t other_hash, uint64_t other_space, std::string_view other_key) {
    return hash == other_hash && space == other_space &&
           other_key == std::string_view(key(), key_size);
  }
};

// On a cache line of its own, so that locks of neighbours do not disturb each other.
struct alignas(64) ShardedLru::Shard {
  mutable std::mutex mutex;
  // All guarded by mutex.
  std::vector<Entry*> buckets;  // a power of two of them
  Entry* newest = nullptr;
  Entry* oldest = nullptr;
  size_t count = 0;
  size_t bytes = 0;  // of entries and buckets

  Entry** Bucket(uint64_t hash) { return &buckets[hash & (buckets.size() - 1)]; }

  Entry* Find(uint64_t hash, uint64_t space, std::string_view key) {
    for (Entry* entry = *Bucket(hash); entry != nullptr; entry = entry->chain) {
      if (entry->Is(hash, space, key)) return entry;
    }
    return nullptr;
  }
  void LinkNewest(Entry* entry) {
    entry->newer = nullptr;
    entry->older = newest;
    (newest != nullptr ? newest->newer : oldest) = entry;
    newest = entry;
  }
  void Unlink(Entry* entry) {
    (entry->newer != nullptr ? entry->newer->older : newest) = entry->older;
    (entry->older != nullptr ? entry->older->newer : oldest) = entry->newer;
  }
  void Remove(Entry* entry) {
    Entry** at = Bucket(entry->hash);
    while (*at != entry) at = &(*at)->chain;
    *at = entry->chain;
    Unlink(entry);
    bytes -= entry->bytes();
    --count;
    std::free(entry);
  }
  void Insert(Entry* entry) {
    if (count >= buckets.size()) Grow();
    Entry** const bucket = Bucket(entry->hash);
    entry->chain = *bucket;
    *bucket = entry;
    LinkNewest(entry);
    bytes += entry->bytes();
    ++count;
  }
  void Grow() {
    bytes += buckets.size() * sizeof(Entry*);
    buckets.assign(buckets.size() * 2, nullptr);
    for (Entry* entry = newest; entry != nullptr; entry = entry->older) {
      Entry** const bucket = Bucket(entry->hash);
      entry->chain = *bucket;
      *bucket = entry;
    }
  }
  void Clear() {
    while (oldest != nullptr) Remove(oldest);
    buckets.assign(kBucketsMin, nullptr);
    buckets.shrink_to_fit();
    bytes = buckets.size() * sizeof(Entry*);
  }
};

ShardedLru::ShardedLru(const LruOptions& options, const CacheMetrics* metrics)
    : bytes_max_(options.bytes_max),
      ttl_ns_(std::chrono::nanoseconds(options.ttl).count()),
      seed_((uint64_t(std::random_device()()) << 32) | std::random_device()()),
      now_(options.now),
      metrics_(metrics) {
  // A power of two, for ShardOf.
  while (shard_count_ < 256 && shard_count_ * 2 <= options.shards &&
         bytes_max_ / (shard_count_ * 2) >= kShardBytesMin) {
    shard_count_ *= 2;
  }
  const size_t shard_bytes = bytes_max_ / shard_count_;
  entry_bytes_max_ = options.entry_bytes_max > 0 ? std::min(options.entry_bytes_max, shard_bytes)
                                                 : shard_bytes / 8;
  shards_ = std::make_unique<Shard[]>(shard_count_);
  for (size_t i = 0; i < shard_count_; ++i) shards_[i].Clear();
}

ShardedLru::~ShardedLru() { Clear(); }

// The low bits choose the bucket, the high ones the shard.
ShardedLru::Shard& ShardedLru::ShardOf(uint64_t hash) const {
  return shards_[(hash >> 56) & (shard_count_ - 1)];
}

uint64_t ShardedLru::Hash(uint64_t space, std::string_view key) const {
  return XXH3_64bits_withSeed(key.data(), key.size(), seed_ ^ space * 0x9E3779B97F4A7C15u);
}

int64_t ShardedLru::Now() const {
  if (ttl_ns_ == 0) return 0;
  const auto now = now_ ? now_() : std::chrono::steady_clock::now();
  return std::chrono::nanoseconds(now.time_since_epoch()).count();
}

void ShardedLru::Account(int64_t bytes) const {
  if (bytes != 0) metrics_->bytes->Add(bytes);
}

bool ShardedLru::GetWith(uint64_t space, std::string_view key, UseFn use, void* context) {
  if (!enabled()) return false;
  const uint64_t hash = Hash(space, key);
  const int64_t now = Now();
  Shard& shard = ShardOf(hash);
  int64_t freed = 0;
  bool expired = false;
  {
    const std::lock_guard lock(shard.mutex);
    Entry* const entry = shard.Find(hash, space, key);
    if (entry != nullptr && (entry->expires_ns == 0 || now < entry->expires_ns)) {
      if (entry != shard.newest) {
        shard.Unlink(entry);
        shard.LinkNewest(entry);
      }
      use(context, {entry->value(), entry->value_size});
      metrics_->hits->Add();
      return true;
    }
    if (entry != nullptr) {
      expired = true;
      freed = static_cast<int64_t>(entry->bytes());
      shard.Remove(entry);
    }
  }
  metrics_->misses->Add();
  if (expired) metrics_->expired->Add();
  Account(-freed);
  return false;
}

void ShardedLru::Put(uint64_t space, std::string_view key,
                     std::initializer_list<std::span<const std::byte>> parts) {
  size_t value_size = 0;
  for (const auto& part : parts) value_size += part.size();
  if (!enabled() || sizeof(Entry) + key.size() + value_size + kMallocBytes > entry_bytes_max_) {
    return;
  }
  // Made outside the lock.
  auto* const entry = static_cast<Entry*>(std::malloc(sizeof(Entry) + key.size() + value_size));
  if (entry == nullptr) return;
  entry->hash = Hash(space, key);
  entry->space = space;
  entry->key_size = static_cast<uint32_t>(key.size());
  entry->value_size = static_cast<uint32_t>(value_size);
  const int64_t now = Now();
  entry->expires_ns = ttl_ns_ > 0 ? now + ttl_ns_ : 0;
  std::memcpy(entry->key(), key.data(), key.size());
  std::byte* to = entry->value();
  for (const auto& part : parts) {
    if (!part.empty()) std::memcpy(to, part.data(), part.size());
    to += part.size();
  }
  Shard& shard = ShardOf(entry->hash);
  uint64_t evicted = 0, expired = 0;
  int64_t change = 0;
  {
    const std::lock_guard lock(shard.mutex);
    const size_t before = shard.bytes;
    if (Entry* const old = shard.Find(entry->hash, space, key)) shard.Remove(old);
    shard.Insert(entry);
    const size_t shard_bytes = bytes_max_ / shard_count_;
    // Expired entries that were not used lie at the end and leave even if there is room, so that an
    // idle cache does not keep a full one's memory for ever.
    while (shard.oldest != entry) {
      const bool over = shard.oldest->expires_ns != 0 && shard.oldest->expires_ns <= now;
      if (!over && shard.bytes <= shard_bytes) break;
      ++(over ? expired : evicted);
      shard.Remove(shard.oldest);
    }
    change = static_cast<int64_t>(shard.bytes) - static_cast<int64_t>(before);
  }
  if (evicted > 0) metrics_->evictions->Add(evicted);
  if (expired > 0) metrics_->expired->Add(expired);
  Account(change);
}

void ShardedLru::Clear() {
  for (size_t i = 0; i < shard_count_; ++i) {
    Shard& shard = shards_[i];
    const std::lock_guard lock(shard.mutex);
    const size_t before = shard.bytes;
    shard.Clear();
    Account(static_cast<int64_t>(shard.bytes) - static_cast<int64_t>(before));
  }
}

size_t ShardedLru::bytes() const {
  size_t bytes = 0;
  for (size_t i = 0; i < shard_count_; ++i) {
    const std::lock_guard lock(shards_[i].mutex);
    bytes += shards_[i].bytes;
  }
  return bytes;
}

size_t ShardedLru::entries() const {
  size_t entries = 0;
  for (size_t i = 0; i < shard_count_; ++i) {
    const std::lock_guard lock(shards_[i].mutex);
    entries += shards_[i].count;
  }
  return entries;
}

}  // namespace penstock::cache
