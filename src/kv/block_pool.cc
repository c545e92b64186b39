#include "kv/block_pool.h"

#include <algorithm>

#include "base/status.h"

namespace penstock::kv {

BlockPool::BlockPool(int32_t blocks, int32_t page_blocks)
    : blocks_(static_cast<size_t>(blocks)),
      page_blocks_(page_blocks),
      pages_(CeilDiv(static_cast<size_t>(blocks), static_cast<size_t>(page_blocks))),
      free_committed_(blocks),
      free_untouched_(blocks),
      free_pages_(static_cast<int32_t>(pages_.size())) {
  PENSTOCK_CHECK(blocks > 0 && page_blocks > 0);
  for (int32_t block = 0; block < blocks; ++block) {
    free_untouched_.Insert(block);
    ++PageOf(block).free;
  }
}

BlockCounts BlockPool::counts() const {
  BlockCounts counts;
  counts.blocks = blocks();
  counts.in_use = Read(in_use_);
  counts.idle = Read(idle_);
  // The two were read one after the other.
  counts.free = std::max(0, counts.blocks - counts.in_use - counts.idle);
  counts.committed = Read(committed_);
  counts.evictions = Read(evictions_);
  return counts;
}

int32_t BlockPool::PageEnd(int32_t page) const {
  return static_cast<int32_t>(std::min<int64_t>((int64_t{page} + 1) * page_blocks_, blocks()));
}

int32_t BlockPool::FindFree(int32_t after) const {
  const int32_t next = after + 1;
  const bool neighbour = after >= 0 && next < blocks();
  if (neighbour && free_committed_.Has(next)) return next;
  if (const int32_t first = free_committed_.First(); first >= 0) return first;
  if (neighbour && free_untouched_.Has(next)) return next;
  return free_untouched_.First();
}

// None of its blocks was in use.
void BlockPool::Commit(int32_t page) {
  const int32_t first = page * page_blocks_, end = PageEnd(page);
  for (int32_t block = first; block < end; ++block) {
    free_untouched_.Erase(block);
    free_committed_.Insert(block);
  }
  pages_[static_cast<size_t>(page)].committed = true;
  Add(&committed_, end - first);
}

void BlockPool::TakeFree(int32_t block) {
  Page& page = PageOf(block);
  if (!page.committed) Commit(block / page_blocks_);
  free_committed_.Erase(block);
  free_pages_.Erase(block / page_blocks_);
  --page.free;
}

void BlockPool::MakeFree(int32_t block) {
  const int32_t index = block / page_blocks_;
  free_committed_.Insert(block);
  if (++PageOf(block).free == PageEnd(index) - index * page_blocks_) free_pages_.Insert(index);
}

int32_t BlockPool::Take(int32_t after) {
  int32_t block = FindFree(after);
  if (block < 0) {
    if (oldest_ < 0) return -1;
    block = oldest_;
    Evict(block);
  }
  TakeFree(block);
  At(block).references = 1;
  Add(&in_use_, 1);
  return block;
}

void BlockPool::AddReference(int32_t block) {
  Block& one = At(block);
  PENSTOCK_CHECK(one.references > 0 || one.known);
  if (one.references++ > 0) return;
  Unlink(block);
  Add(&in_use_, 1);
}

void BlockPool::Release(int32_t block) {
  Block& one = At(block);
  PENSTOCK_CHECK(one.references > 0);
  if (--one.references > 0) return;
  Add(&in_use_, -1);
  if (!one.known) return MakeFree(block);
  one.idle_since = now_;
  LinkNewest(block);
}

void BlockPool::SetKnown(int32_t block, bool known) {
  PENSTOCK_CHECK(At(block).references > 0);
  At(block).known = known;
}

void BlockPool::Evict(int32_t block) {
  Block& one = At(block);
  PENSTOCK_CHECK(one.references == 0 && one.known);
  Unlink(block);
  one.known = false;
  MakeFree(block);
  Add(&evictions_, uint64_t{1});
  if (listener_ != nullptr) listener_->OnEvict(listener_group_, block);
}

int32_t BlockPool::EvictIdleSince(int64_t time, int32_t most) {
  int32_t evicted = 0;
  for (; evicted < most && oldest_ >= 0 && At(oldest_).idle_since < time; ++evicted) {
    Evict(oldest_);
  }
  return evicted;
}

size_t BlockPool::Uncommit(int32_t keep, std::span<int32_t> to) {
  size_t count = 0;
  int32_t spare = Read(committed_) - Read(in_use_) - Read(idle_) - keep;
  for (;;) {
    const int32_t page = free_pages_.Last();
    if (page < 0) return count;
    const int32_t first = page * page_blocks_, end = PageEnd(page);
    const int32_t size = end - first;
    if (size > spare || static_cast<size_t>(size) > to.size() - count) return count;
    for (int32_t block = first; block < end; ++block) {
      free_committed_.Erase(block);
      free_untouched_.Insert(block);
      to[count++] = block;
    }
    pages_[static_cast<size_t>(page)].committed = false;
    free_pages_.Erase(page);
    Add(&committed_, -size);
    spare -= size;
  }
}

void BlockPool::LinkNewest(int32_t block) {
  Block& one = At(block);
  one.newer = -1;
  one.older = newest_;
  (newest_ >= 0 ? At(newest_).newer : oldest_) = block;
  newest_ = block;
  Add(&idle_, 1);
}

void BlockPool::Unlink(int32_t block) {
  Block& one = At(block);
  (one.newer >= 0 ? At(one.newer).older : newest_) = one.older;
  (one.older >= 0 ? At(one.older).newer : oldest_) = one.newer;
  one.newer = one.older = -1;
  Add(&idle_, -1);
}

}  // namespace penstock::kv
