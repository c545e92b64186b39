// For tests: operator new that fails when it is told to. Include it in one source of a test program
// at most, for it replaces the operators of the whole program. Sanitizers bring operators of their
// own, so it does nothing there: ask kFailingNew.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace penstock {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kFailingNew = false;
#else
inline constexpr bool kFailingNew = true;
#endif

class FailingNew {
 public:
  // While it lives, the `nth` allocation (from 1) of the threads that count, and the `count` - 1
  // after it, throw std::bad_alloc. One at a time.
  FailingNew(int64_t nth, int64_t count) {
    last_ = nth + count - 1;
    first_ = nth;
    seen_ = 0;
  }
  ~FailingNew() { first_ = last_ = 0; }
  FailingNew(const FailingNew&) = delete;
  FailingNew& operator=(const FailingNew&) = delete;

  // Whether the allocations of this thread count; none does unless it says so, or `others` is set.
  static void CountThisThread(bool counts) { this_thread_ = counts ? 1 : -1; }
  // Whether those of threads count that have not said.
  static void CountOthers(bool counts) { others_ = counts; }

  static bool HasFailed() { return seen_.load() >= first_.load() && first_.load() > 0; }

  static void* Allocate(size_t size, size_t alignment) {
    if (first_.load(std::memory_order_relaxed) > 0 &&
        (this_thread_ > 0 || (this_thread_ == 0 && others_.load()))) {
      const int64_t now = seen_.fetch_add(1) + 1;
      if (now >= first_.load() && now <= last_.load()) throw std::bad_alloc();
    }
    void* p = alignment == 0
                  ? std::malloc(size)
                  : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
    if (p == nullptr) throw std::bad_alloc();
    return p;
  }

 private:
  static inline std::atomic<int64_t> first_{0}, last_{0}, seen_{0};
  static inline std::atomic<bool> others_{false};
  static inline thread_local int this_thread_ = 0;
};

}  // namespace penstock

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void* operator new(size_t size) { return penstock::FailingNew::Allocate(size, 0); }
void* operator new(size_t size, std::align_val_t alignment) {
  return penstock::FailingNew::Allocate(size, static_cast<size_t>(alignment));
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }
#endif
