#include "kv/prefix_cache.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <random>

#include "common/status.h"

namespace penstock {
namespace {

constexpr size_t kBlockIds = kKvBlockTokens;

uint64_t Xxh3(uint64_t before, std::span<const int32_t> ids) {
  return XXH3_64bits_withSeed(ids.data(), ids.size_bytes(), before);
}

uint64_t RandomSeed() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

}  // namespace

PrefixCache::PrefixCache(BlockPool* pool, HashFn hash)
    : pool_(pool),
      hash_(hash != nullptr ? hash : Xxh3),
      seed_(RandomSeed()),
      nodes_(static_cast<size_t>(pool->blocks())),
      ids_(std::make_unique_for_overwrite<int32_t[]>(nodes_.size() * kBlockIds)),
      buckets_(std::bit_ceil(nodes_.size()), -1) {
  pool->SetListener(this);
}

PrefixCache::~PrefixCache() { pool_->SetListener(nullptr); }

uint64_t PrefixCache::HashOf(int32_t parent, uint64_t salt, std::span<const int32_t> ids) const {
  const uint64_t before =
      parent >= 0 ? At(parent).hash : XXH3_64bits_withSeed(&salt, sizeof salt, seed_);
  return hash_(before, ids);
}

int32_t PrefixCache::Find(uint64_t hash, int32_t parent, uint64_t salt,
                          std::span<const int32_t> ids) const {
  for (int32_t block = buckets_[Bucket(hash)]; block >= 0; block = At(block).chain) {
    const Node& node = At(block);
    if (node.hash == hash && node.parent == parent && node.salt == salt &&
        std::ranges::equal(IdsOf(block), ids)) {
      return block;
    }
  }
  return -1;
}

size_t PrefixCache::Lookup(int32_t parent, uint64_t salt, std::span<const int32_t> ids,
                           std::span<int32_t> blocks) const {
  size_t count = 0;
  for (; count < blocks.size() && ids.size() > kBlockIds; ids = ids.subspan(kBlockIds)) {
    const auto first = ids.first(kBlockIds);
    parent = Find(HashOf(parent, salt, first), parent, salt, first);
    if (parent < 0) break;
    blocks[count++] = parent;
  }
  return count;
}

size_t PrefixCache::CachedTokens(uint64_t salt, std::span<const int32_t> ids) const {
  size_t tokens = 0;
  for (int32_t parent = -1; ids.size() - tokens > kBlockIds; tokens += kBlockIds) {
    const auto next = ids.subspan(tokens, kBlockIds);
    parent = Find(HashOf(parent, salt, next), parent, salt, next);
    if (parent < 0) break;
  }
  return tokens;
}

int32_t PrefixCache::Insert(int32_t parent, uint64_t salt, std::span<const int32_t> ids,
                            int32_t block) {
  PENSTOCK_CHECK(ids.size() == kBlockIds && (parent < 0 || pool_->known(parent)));
  PENSTOCK_CHECK(!pool_->known(block) && pool_->references(block) == 1);
  const uint64_t hash = HashOf(parent, salt, ids);
  if (const int32_t known = Find(hash, parent, salt, ids); known >= 0) {
    pool_->AddReference(known);
    pool_->Release(block);
    return known;
  }
  pool_->SetKnown(block, true);
  Node& node = At(block);
  node = {hash, salt, parent, buckets_[Bucket(hash)], kKvBlockTokens, -1, 0};
  buckets_[Bucket(hash)] = block;
  std::ranges::copy(ids, IdsOf(block).begin());
  if (parent >= 0) ++At(parent).followers;
  return block;
}

void PrefixCache::InsertTail(int32_t parent, std::span<const int32_t> ids, int32_t block) {
  PENSTOCK_CHECK(!ids.empty() && ids.size() < kBlockIds && pool_->known(parent));
  PENSTOCK_CHECK(!pool_->known(block) && pool_->references(block) == 1);
  if (At(parent).tail >= 0) pool_->Evict(At(parent).tail);
  pool_->SetKnown(block, true);
  At(block) = {0, At(parent).salt, parent, -1, static_cast<int32_t>(ids.size()), -1, 0};
  std::ranges::copy(ids, IdsOf(block).begin());
  At(parent).tail = block;
}

int32_t PrefixCache::TakeTail(int32_t parent, std::span<const int32_t> ids, size_t* tokens) {
  const int32_t block = At(parent).tail;
  if (block < 0) return -1;
  const std::span<const int32_t> known = IdsOf(block);
  if (known.size() >= ids.size() || !std::ranges::equal(known, ids.first(known.size()))) return -1;
  *tokens = known.size();
  At(parent).tail = -1;
  pool_->AddReference(block);
  pool_->SetKnown(block, false);
  return block;
}

void PrefixCache::OnEvict(int32_t block) {
  Node& node = At(block);
  PENSTOCK_CHECK(node.followers == 0 && node.tail < 0);
  if (node.tokens < kKvBlockTokens) {
    At(node.parent).tail = -1;
    return;
  }
  int32_t* at = &buckets_[Bucket(node.hash)];
  while (*at != block) at = &At(*at).chain;
  *at = node.chain;
  if (node.parent >= 0) --At(node.parent).followers;
}

}  // namespace penstock
