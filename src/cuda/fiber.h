// A fiber: a stack of its own, and where it went off it. Switching costs some 10 ns.
#pragma once

#include <cstddef>
#include <memory>

namespace penstock::cuda::emulator {

// One stack. Not thread-safe; all fibers of a thread are switched to by that thread.
class Fiber {
 public:
  // The fiber of the thread itself, which has a stack already.
  Fiber();
  // `stagger`: how far its top is moved, so that tops do not share lines of a cache.
  Fiber(size_t stack_bytes, size_t stagger);
  ~Fiber();
  Fiber(Fiber&& other) noexcept;
  Fiber& operator=(Fiber&&) = delete;

  // The next switch to it calls `main`, which never returns.
  void Start(void (*main)());
  // Leaves `from`, which is running, for `to`. Returns when another fiber switches back.
  static void Switch(Fiber* from, Fiber* to);
  // To be called first by what Start was given.
  static void Arrive(Fiber* here);
  // What runs on it has ended, so its stack can be another one's.
  void End() { ended_ = true; }
  // The thread that ThreadSanitizer takes it for (race_hooks.h); else null.
  void* context() const { return context_; }

 private:
  std::byte* stack_ = nullptr;
  size_t bytes_ = 0;
  size_t stagger_ = 0;
  void* at_ = nullptr;            // the saved stack pointer
  void* fake_ = nullptr;          // AddressSanitizer's own stack
  const void* bottom_ = nullptr;  // of the stack, for it
  size_t bottom_bytes_ = 0;
  void* context_ = nullptr;
  int insides_ = 0;  // of race_hooks.h
  bool ended_ = true;
};

}  // namespace penstock::cuda::emulator
