// For tests: operator new that fails where it is told to. Included by one source file of a test
// binary, as it defines the operators.
//
//   FailingNew fail(3);           // the third allocation of this thread from here on throws
//   LargeNewFails fail(1 << 20);  // so do all of this thread that are larger
//   FailingNewElsewhere fail(3);  // the third allocation of all other threads together throws
//   LiveBytes live;               // live.peak(): the most bytes held at once since then
#pragma once

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace penstock {

class FailingNew {
 public:
  // The `nth` (1: the next) allocation of this thread and the `count` - 1 after it fail, where they
  // come while this object lives.
  explicit FailingNew(long nth, long count = 1) {
    left_ = nth;
    count_ = count;
  }
  ~FailingNew() { left_ = count_ = 0; }
  FailingNew(const FailingNew&) = delete;
  FailingNew& operator=(const FailingNew&) = delete;

  bool failed() const { return left_ == 0; }

  // All allocations so far, of all threads.
  static long Allocations() { return allocations_.load(std::memory_order_relaxed); }
  // And their bytes together, whether freed since or not.
  static uint64_t AllocatedBytes() { return allocated_bytes_.load(std::memory_order_relaxed); }

  // The allocation behind all operators; null: this one fails.
  static void* Alloc(size_t size, size_t alignment) noexcept {
    allocations_.fetch_add(1, std::memory_order_relaxed);
    allocated_bytes_.fetch_add(size, std::memory_order_relaxed);
    if (left_ > 0) --left_;
    if ((left_ == 0 && count_ > 0 && count_-- > 0) || size > size_max_) return nullptr;
    if (elsewhere_nth_.load(std::memory_order_relaxed) > 0 && !spared_) {
      const long now = elsewhere_seen_.fetch_add(1, std::memory_order_relaxed) + 1;
      if (now >= elsewhere_nth_ && now < elsewhere_nth_ + elsewhere_count_) return nullptr;
    }
    if (alignment <= alignof(std::max_align_t)) {
      return Counted(std::malloc(std::max<size_t>(size, 1)));
    }
    return Counted(std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment));
  }
  static void Free(void* p) noexcept {
    if (p == nullptr) return;
    live_bytes_.fetch_sub(BlockBytes(p), std::memory_order_relaxed);
    std::free(p);
  }
  static void* AllocOrThrow(size_t size, size_t alignment) {
    void* const p = Alloc(size, alignment);
    if (p == nullptr) throw std::bad_alloc();
    return p;
  }

 private:
  // With the word before it that says how long it is.
  static int64_t BlockBytes(void* p) {
    return static_cast<int64_t>(malloc_usable_size(p) + sizeof(size_t));
  }
  static void* Counted(void* p) noexcept {
    if (p == nullptr) return p;
    const int64_t bytes = BlockBytes(p);
    const int64_t live = live_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    int64_t peak = peak_bytes_.load(std::memory_order_relaxed);
    while (live > peak && !peak_bytes_.compare_exchange_weak(peak, live)) {
    }
    return p;
  }

  inline static std::atomic<int64_t> live_bytes_{0};
  inline static std::atomic<int64_t> peak_bytes_{0};
  inline static std::atomic<long> allocations_{0};
  inline static std::atomic<uint64_t> allocated_bytes_{0};
  inline static thread_local long left_ = 0;
  inline static thread_local long count_ = 0;
  inline static thread_local size_t size_max_ = SIZE_MAX;
  inline static std::atomic<long> elsewhere_nth_{0};
  inline static std::atomic<long> elsewhere_count_{0};
  inline static std::atomic<long> elsewhere_seen_{0};
  inline static thread_local bool spared_ = false;
  friend class LargeNewFails;
  friend class FailingNewElsewhere;
  friend class LiveBytes;
};

// What the heap holds, of all threads, beyond what it held when this was made.
class LiveBytes {
 public:
  LiveBytes() : begin_(FailingNew::live_bytes_) { FailingNew::peak_bytes_ = begin_; }
  int64_t peak() const { return FailingNew::peak_bytes_ - begin_; }

 private:
  const int64_t begin_;
};

class LargeNewFails {
 public:
  explicit LargeNewFails(size_t size_max) { FailingNew::size_max_ = size_max; }
  ~LargeNewFails() { FailingNew::size_max_ = SIZE_MAX; }
  LargeNewFails(const LargeNewFails&) = delete;
  LargeNewFails& operator=(const LargeNewFails&) = delete;
};

// The `nth` allocation of all threads but this one, and the `count` - 1 after it, fail, where they
// come while this object lives.
class FailingNewElsewhere {
 public:
  explicit FailingNewElsewhere(long nth, long count = 1) {
    FailingNew::spared_ = true;
    FailingNew::elsewhere_seen_ = 0;
    FailingNew::elsewhere_count_ = count;
    FailingNew::elsewhere_nth_ = nth;
  }
  ~FailingNewElsewhere() {
    FailingNew::elsewhere_nth_ = 0;
    FailingNew::spared_ = false;
  }
  FailingNewElsewhere(const FailingNewElsewhere&) = delete;
  FailingNewElsewhere& operator=(const FailingNewElsewhere&) = delete;

  bool failed() const { return FailingNew::elsewhere_seen_ >= FailingNew::elsewhere_nth_; }
};

}  // namespace penstock

// All operators, since a sanitizer brings its own for those left out, and the two do not mix.
void* operator new(size_t size) { return penstock::FailingNew::AllocOrThrow(size, 1); }
void* operator new[](size_t size) { return penstock::FailingNew::AllocOrThrow(size, 1); }
void* operator new(size_t size, std::align_val_t alignment) {
  return penstock::FailingNew::AllocOrThrow(size, static_cast<size_t>(alignment));
}
void* operator new[](size_t size, std::align_val_t alignment) {
  return penstock::FailingNew::AllocOrThrow(size, static_cast<size_t>(alignment));
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return penstock::FailingNew::Alloc(size, 1);
}
void* operator new[](size_t size, const std::nothrow_t&) noexcept {
  return penstock::FailingNew::Alloc(size, 1);
}
void operator delete(void* p) noexcept { penstock::FailingNew::Free(p); }
void operator delete[](void* p) noexcept { penstock::FailingNew::Free(p); }
void operator delete(void* p, size_t) noexcept { penstock::FailingNew::Free(p); }
void operator delete[](void* p, size_t) noexcept { penstock::FailingNew::Free(p); }
void operator delete(void* p, std::align_val_t) noexcept { penstock::FailingNew::Free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { penstock::FailingNew::Free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { penstock::FailingNew::Free(p); }
void operator delete[](void* p, size_t, std::align_val_t) noexcept {
  penstock::FailingNew::Free(p);
}
void operator delete(void* p, const std::nothrow_t&) noexcept { penstock::FailingNew::Free(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { penstock::FailingNew::Free(p); }
