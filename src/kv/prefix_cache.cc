#include "kv/prefix_cache.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <random>
#include <utility>

#include "base/status.h"

namespace penstock::kv {
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

PrefixCache::PrefixCache(CachePools* pools, HashFn hash)
    : pools_(pools),
      pool_(&(*pools)[0]),
      hash_(hash != nullptr ? hash : Xxh3),
      seed_(RandomSeed()),
      nodes_(static_cast<size_t>(pool_->blocks())),
      ids_(std::make_unique_for_overwrite<int32_t[]>(nodes_.size() * kBlockIds)),
      buckets_(std::bit_ceil(nodes_.size()), -1),
      attached_(pools->size()) {
  for (size_t g = 0; g < pools_->size(); ++g) (*pools_)[g].SetListener(this, g);
  for (size_t g = 1; g < pools_->size(); ++g) {
    attached_[g].to.assign(nodes_.size(), -1);
    attached_[g].of.assign(static_cast<size_t>((*pools_)[g].blocks()), -1);
  }
}

PrefixCache::~PrefixCache() {
  for (size_t g = 0; g < pools_->size(); ++g) (*pools_)[g].SetListener(nullptr);
}

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

// Whether a text can go on after so many blocks, of which those from `there_from` on are there in
// each group.
bool PrefixCache::CanGoOnAfter(size_t blocks, const ThereFrom& there_from) const {
  for (size_t g = 1; g < pools_->size(); ++g) {
    if (there_from[g] > pools_->policy(g).FirstNeeded(blocks)) return false;
  }
  return true;
}

template <typename Take>
size_t PrefixCache::Walk(int32_t parent, uint64_t salt, std::span<const int32_t> ids, size_t held,
                         size_t most, const Take& take) const {
  size_t found = 0;
  ThereFrom there_from{};
  for (size_t count = 0; count < most && ids.size() > kBlockIds; ids = ids.subspan(kBlockIds)) {
    const auto first = ids.first(kBlockIds);
    parent = Find(HashOf(parent, salt, first), parent, salt, first);
    if (parent < 0) break;
    take(count++, parent);
    for (size_t g = 1; g < pools_->size(); ++g) {
      if (Attached(g, parent) < 0) there_from[g] = held + count;
    }
    if (CanGoOnAfter(held + count, there_from)) found = count;
  }
  return found;
}

size_t PrefixCache::Lookup(int32_t parent, uint64_t salt, std::span<const int32_t> ids,
                           std::span<int32_t> blocks, size_t held) const {
  return Walk(parent, salt, ids, held, blocks.size(),
              [&](size_t i, int32_t block) { blocks[i] = block; });
}

size_t PrefixCache::CachedTokens(uint64_t salt, std::span<const int32_t> ids) const {
  return kBlockIds * Walk(-1, salt, ids, 0, ids.size(), [](size_t, int32_t) {});
}

void PrefixCache::Attach(size_t group, int32_t block, int32_t beside) {
  (*pools_)[group].SetKnown(beside, true);
  attached_[group].to[static_cast<size_t>(block)] = beside;
  attached_[group].of[static_cast<size_t>(beside)] = block;
}

void PrefixCache::Detach(size_t group, int32_t beside) {
  const int32_t block = std::exchange(attached_[group].of[static_cast<size_t>(beside)], -1);
  attached_[group].to[static_cast<size_t>(block)] = -1;
}

GroupBlocks PrefixCache::Insert(int32_t parent, uint64_t salt, std::span<const int32_t> ids,
                                const GroupBlocks& own) {
  PENSTOCK_CHECK(ids.size() == kBlockIds && (parent < 0 || pool_->known(parent)));
  PENSTOCK_CHECK(!pool_->known(own[0]) && pool_->references(own[0]) == 1);
  const uint64_t hash = HashOf(parent, salt, ids);
  GroupBlocks used = own;
  if (const int32_t known = Find(hash, parent, salt, ids); known >= 0) {
    pool_->AddReference(known);
    pool_->Release(own[0]);
    used[0] = known;
  } else {
    pool_->SetKnown(own[0], true);
    At(own[0]) = {hash, salt, parent, buckets_[Bucket(hash)], kKvBlockTokens, -1, 0};
    buckets_[Bucket(hash)] = own[0];
    std::ranges::copy(ids, IdsOf(own[0]).begin());
    if (parent >= 0) ++At(parent).followers;
  }
  for (size_t g = 1; g < pools_->size(); ++g) {
    if (const int32_t known = Attached(g, used[0]); known >= 0) {
      (*pools_)[g].AddReference(known);
      (*pools_)[g].Release(own[g]);
      used[g] = known;
    } else {
      Attach(g, used[0], own[g]);
    }
  }
  return used;
}

void PrefixCache::InsertTail(int32_t parent, std::span<const int32_t> ids, const GroupBlocks& own) {
  PENSTOCK_CHECK(!ids.empty() && ids.size() < kBlockIds && pool_->known(parent));
  PENSTOCK_CHECK(!pool_->known(own[0]) && pool_->references(own[0]) == 1);
  if (At(parent).tail >= 0) pool_->Evict(At(parent).tail);
  pool_->SetKnown(own[0], true);
  At(own[0]) = {0, At(parent).salt, parent, -1, static_cast<int32_t>(ids.size()), -1, 0};
  std::ranges::copy(ids, IdsOf(own[0]).begin());
  At(parent).tail = own[0];
  for (size_t g = 1; g < pools_->size(); ++g) Attach(g, own[0], own[g]);
}

GroupBlocks PrefixCache::TakeTail(int32_t parent, std::span<const int32_t> ids, size_t* tokens) {
  const int32_t block = At(parent).tail;
  if (block < 0) return {};
  const std::span<const int32_t> known = IdsOf(block);
  if (known.size() >= ids.size() || !std::ranges::equal(known, ids.first(known.size()))) return {};
  GroupBlocks taken;
  taken[0] = block;
  for (size_t g = 1; g < pools_->size(); ++g) {
    taken[g] = Attached(g, block);
    if (taken[g] < 0) return {};
  }
  *tokens = known.size();
  At(parent).tail = -1;
  for (size_t g = 0; g < pools_->size(); ++g) {
    if (g > 0) Detach(g, taken[g]);
    (*pools_)[g].AddReference(taken[g]);
    (*pools_)[g].SetKnown(taken[g], false);
  }
  return taken;
}

void PrefixCache::OnEvict(size_t group, int32_t block) {
  if (group > 0) return Detach(group, block);
  Node& node = At(block);
  PENSTOCK_CHECK(node.followers == 0 && node.tail < 0);
  for (size_t g = 1; g < pools_->size(); ++g) {
    if (const int32_t beside = Attached(g, block); beside >= 0) (*pools_)[g].Evict(beside);
  }
  if (node.tokens < kKvBlockTokens) {
    At(node.parent).tail = -1;
    return;
  }
  int32_t* at = &buckets_[Bucket(node.hash)];
  while (*at != block) at = &At(*at).chain;
  *at = node.chain;
  if (node.parent >= 0) --At(node.parent).followers;
}

}  // namespace penstock::kv
