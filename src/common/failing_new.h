// For tests: operator new that fails where it is told to. Included by one source file of a test
// binary, as it defines the operators.
//
//   FailingNew fail(3);  // the third allocation of this thread from here on throws bad_alloc
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace penstock {

class FailingNew {
 public:
  // The `nth` (1: the next) allocation of this thread fails, if it comes while this object lives.
  explicit FailingNew(long nth) { left_ = nth; }
  ~FailingNew() { left_ = 0; }
  FailingNew(const FailingNew&) = delete;
  FailingNew& operator=(const FailingNew&) = delete;

  bool failed() const { return left_ == 0; }
  // Counts an allocation; true: it is the one.
  static bool Count() { return left_ > 0 && --left_ == 0; }

 private:
  inline static thread_local long left_ = 0;
};

}  // namespace penstock

void* operator new(size_t size) {
  void* const p = penstock::FailingNew::Count() ? nullptr : std::malloc(size);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
void* operator new(size_t size, std::align_val_t alignment) {
  const auto step = static_cast<size_t>(alignment);
  void* const p = penstock::FailingNew::Count()
                      ? nullptr
                      : std::aligned_alloc(step, (size + step - 1) / step * step);
  if (p == nullptr) throw std::bad_alloc();
  return p;
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, size_t, std::align_val_t) noexcept { std::free(p); }
