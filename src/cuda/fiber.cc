#include "cuda/fiber.h"

#include <pthread.h>
#include <sys/mman.h>

#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "cuda/race_hooks.h"

#if defined(__SANITIZE_ADDRESS__)
#define PENSTOCK_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PENSTOCK_ASAN 1
#endif
#endif
#ifdef PENSTOCK_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

// Saves what a call must keep, exchanges stacks, and returns to where the other one saved it.
extern "C" void penstock_cuda_switch(void** save, void* load);
#if defined(__x86_64__)
asm(R"(
.text
.globl penstock_cuda_switch
.type penstock_cuda_switch,@function
penstock_cuda_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size penstock_cuda_switch,.-penstock_cuda_switch
)");
#elif defined(__aarch64__)
asm(R"(
.text
.globl penstock_cuda_switch
.type penstock_cuda_switch,%function
penstock_cuda_switch:
  sub sp, sp, #176
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #176
  ret
.size penstock_cuda_switch,.-penstock_cuda_switch
)");
#else
#error "the emulator has no switch of stacks for this processor"
#endif

namespace penstock::cuda::emulator {

namespace {

struct Stack {
  std::byte* at;
  size_t bytes;
  void* context;

  void Free() const {
#ifdef PENSTOCK_RACES
    __tsan_destroy_fiber(context);
#endif
    munmap(at, bytes);
  }
};
// Stacks that wait for another fiber of this thread: fresh pages cost more than a small kernel, and
// a context of the thread sanitizer takes a millisecond to make. Each keeps its context, to which
// what is on the stack belongs.
struct Stacks {
  std::vector<Stack> all;
  ~Stacks() {
    for (const Stack& stack : all) stack.Free();
  }
};
thread_local Stacks stacks;

}  // namespace

Fiber::Fiber() {
#ifdef PENSTOCK_RACES
  context_ = __tsan_get_current_fiber();
#endif
#ifdef PENSTOCK_ASAN
  pthread_attr_t attributes;
  void* at = nullptr;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  if (pthread_attr_getstack(&attributes, &at, &bottom_bytes_) == 0) bottom_ = at;
  pthread_attr_destroy(&attributes);
#endif
}

Fiber::Fiber(size_t stack_bytes, size_t stagger) : bytes_(stack_bytes), stagger_(stagger) {
  if (!stacks.all.empty() && stacks.all.back().bytes == bytes_) {
    const Stack stack = stacks.all.back();
    stacks.all.pop_back();
    stack_ = stack.at;
    bottom_ = stack_;
    bottom_bytes_ = bytes_;
    context_ = stack.context;
    return;
  }
#ifdef PENSTOCK_RACES
  context_ = __tsan_create_fiber(0);
#endif
  void* const at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  stack_ = static_cast<std::byte*>(at);
  bottom_ = stack_;
  bottom_bytes_ = bytes_;
}

Fiber::~Fiber() {
  if (stack_ == nullptr) return;
#ifdef PENSTOCK_ASAN
  // The next mapping may lie where the stack was.
  __asan_unpoison_memory_region(stack_, bytes_);
#endif
  const Stack stack = {stack_, bytes_, context_};
#ifdef PENSTOCK_RACES
  if (!ended_) {
    // An abandoned context would take the functions it was in for callers of the next ones.
    {
      const race::As as(context_);
      for (; insides_ > 0; --insides_) __tsan_ignore_thread_end();
    }
    stack.Free();
    return;
  }
#endif
  stacks.all.push_back(stack);
}

Fiber::Fiber(Fiber&& other) noexcept
    : stack_(std::exchange(other.stack_, nullptr)),
      bytes_(other.bytes_),
      stagger_(other.stagger_),
      at_(other.at_),
      fake_(other.fake_),
      bottom_(other.bottom_),
      bottom_bytes_(other.bottom_bytes_),
      context_(other.context_),
      insides_(other.insides_),
      ended_(other.ended_) {}

void Fiber::Start(void (*main)()) {
#ifdef PENSTOCK_ASAN
  // What an abandoned kernel left poisoned.
  __asan_unpoison_memory_region(stack_, bytes_);
#endif
  fake_ = nullptr;
  ended_ = false;
  auto top = reinterpret_cast<uintptr_t>(stack_ + bytes_ - stagger_) & ~uintptr_t{15};
#if defined(__x86_64__)
  auto* const words = reinterpret_cast<void**>(top - 64);
  for (int i = 0; i < 6; ++i) words[i] = nullptr;  // the registers that a switch restores
  words[6] = reinterpret_cast<void*>(main);
  words[7] = nullptr;  // where `main` would return to
  at_ = words;
#else
  auto* const words = reinterpret_cast<void**>(top - 176);
  for (int i = 0; i < 22; ++i) words[i] = nullptr;
  words[11] = reinterpret_cast<void*>(main);  // x30
  at_ = words;
#endif
}

void Fiber::Switch(Fiber* from, Fiber* to) {
#ifdef PENSTOCK_ASAN
  __sanitizer_start_switch_fiber(&from->fake_, to->bottom_, to->bottom_bytes_);
  penstock_cuda_switch(&from->at_, to->at_);
  const void* old = nullptr;
  size_t old_size = 0;
  __sanitizer_finish_switch_fiber(from->fake_, &old, &old_size);
#else
#ifdef PENSTOCK_RACES
  from->insides_ = std::exchange(race::insides, to->insides_);
  __tsan_switch_to_fiber(to->context_, __tsan_switch_to_fiber_no_sync);
#endif
  penstock_cuda_switch(&from->at_, to->at_);
#endif
}

void Fiber::Arrive(Fiber* here) {
  (void)here;
#ifdef PENSTOCK_ASAN
  const void* old = nullptr;
  size_t size = 0;
  __sanitizer_finish_switch_fiber(nullptr, &old, &size);
#endif
}

}  // namespace penstock::cuda::emulator
