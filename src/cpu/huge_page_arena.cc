#include "cpu/huge_page_arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <new>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/int_math.h"
#include "threads/thread_pool.h"

namespace penstock::cpu {
namespace {

// Whole pages straight from the system, which take no memory until touched and go back when freed;
// the heap would keep them.
std::shared_ptr<void> NewChunk(size_t bytes) {
  constexpr size_t kAlign = HugePageArena::kPageBytes;
  // One page more than needed: what lies before and behind the aligned piece goes back at once.
  void* mapped =
      mmap(nullptr, bytes + kAlign, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  char* begin = static_cast<char*>(mapped);
  char* data =
      reinterpret_cast<char*>(penstock::RoundUp(reinterpret_cast<uintptr_t>(begin), kAlign));
  const size_t before = static_cast<size_t>(data - begin);
  if (before > 0) munmap(begin, before);
  if (before < kAlign) munmap(data + bytes, kAlign - before);
  // A hint: without huge pages, small ones are used.
  madvise(data, bytes, MADV_HUGEPAGE);
  return {data, [bytes](void* p) { munmap(p, bytes); }};
}

// Touches huge page i from a processor near node i modulo the number of nodes. Every 4 KiB is
// touched, since the system may give small pages.
void SpreadOverNodes(void* memory, size_t bytes, std::span<const std::vector<int>> nodes) {
  constexpr size_t kSmallPage = 4096;
  const auto touch = [&](size_t node) {
    RunOnlyOn(nodes[node]);
    for (size_t page = node * HugePageArena::kPageBytes; page < bytes;
         page += nodes.size() * HugePageArena::kPageBytes) {
      for (size_t at = page; at < page + HugePageArena::kPageBytes; at += kSmallPage) {
        static_cast<volatile char*>(memory)[at] = 0;
      }
    }
  };
  std::vector<std::thread> threads;
  try {
    for (size_t node = 0; node < nodes.size(); ++node) threads.emplace_back(touch, node);
  } catch (const std::exception&) {
    // The other pages lie where they are first used.
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

// Blocks cut off one mapping, and how many of them lie in each of its pages.
class HugePageArena::Chunk : public std::enable_shared_from_this<Chunk> {
 public:
  explicit Chunk(std::shared_ptr<void> memory) : memory_(std::move(memory)) {}

  // data null: it does not fit.
  Block Cut(size_t bytes) {
    size_t begin = 0;
    {
      const std::lock_guard lock(mutex_);
      if (used_ + bytes > kChunkBytes) return {};
      begin = used_;
      used_ += bytes;
      ++blocks_;
      for (size_t page = begin / kPageBytes; page <= LastPage(begin, bytes); ++page) ++live_[page];
    }
    // If the count cannot be allocated, the block is given back at once.
    void* const data = static_cast<char*>(memory_.get()) + begin;
    const auto give_back = [chunk = shared_from_this(), begin, bytes](void*) {
      chunk->GiveBack(begin, bytes);
    };
    return {std::shared_ptr<void>(data, give_back), data};
  }
  bool empty() const {
    const std::lock_guard lock(mutex_);
    return blocks_ == 0;
  }

 private:
  static constexpr size_t kPages = kChunkBytes / kPageBytes;

  static size_t LastPage(size_t begin, size_t bytes) { return (begin + bytes - 1) / kPageBytes; }

  void GiveBack(size_t begin, size_t bytes) {
    const std::lock_guard lock(mutex_);
    --blocks_;
    for (size_t page = begin / kPageBytes; page <= LastPage(begin, bytes); ++page) {
      // The page still being cut stays until it is full.
      if (--live_[page] == 0 && (page + 1) * kPageBytes <= used_) ReturnPages(page, page + 1);
    }
    if (blocks_ > 0) return;
    ReturnPages(used_ / kPageBytes, penstock::RoundUp(used_, kPageBytes) / kPageBytes);
    used_ = 0;
  }
  // They are zeros when they are touched again.
  void ReturnPages(size_t begin, size_t end) const {
    if (begin == end) return;
    madvise(static_cast<char*>(memory_.get()) + begin * kPageBytes, (end - begin) * kPageBytes,
            MADV_DONTNEED);
  }

  const std::shared_ptr<void> memory_;
  mutable std::mutex mutex_;
  size_t used_ = 0;                    // guarded by mutex_, and what follows
  size_t blocks_ = 0;                  // not yet freed
  std::array<size_t, kPages> live_{};  // blocks in each page
};

std::shared_ptr<void> HugePageArena::NewPages(size_t bytes) const {
  std::shared_ptr<void> memory = NewChunk(bytes);
  if (nodes_.size() > 1) SpreadOverNodes(memory.get(), bytes, nodes_);
  return memory;
}

HugePageArena::Block HugePageArena::Alloc(size_t bytes) {
  bytes = penstock::RoundUp(std::max<size_t>(bytes, 1), kAlignment);
  if (bytes >= kChunkBytes) {
    const std::shared_ptr<void> own = NewPages(penstock::RoundUp(bytes, kPageBytes));
    return {own, own.get()};
  }
  const std::lock_guard lock(mutex_);
  if (chunk_ != nullptr) {
    if (Block block = chunk_->Cut(bytes); block.data != nullptr) return block;
  }
  chunk_.reset();
  chunk_ = std::make_shared<Chunk>(NewPages(kChunkBytes));
  return chunk_->Cut(bytes);
}

void HugePageArena::Trim() {
  const std::lock_guard lock(mutex_);
  if (chunk_ != nullptr && chunk_->empty()) chunk_.reset();
}

}  // namespace penstock::cpu
