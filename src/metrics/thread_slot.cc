#include "metrics/thread_slot.h"

#include <bitset>
#include <cstddef>
#include <mutex>
#include <new>

namespace penstock::metrics {
namespace {

struct Slots {
  std::mutex mutex;  // also orders an owner's writes before the next one's
  std::bitset<kThreadSlots> taken;
};
// Never destroyed, since threads may outlive static objects; and without an allocation, so that
// nothing is thrown.
Slots& AllSlots() {
  alignas(Slots) static std::byte memory[sizeof(Slots)];
  static auto* const slots = new (memory) Slots;
  return *slots;
}

constexpr size_t kNotAsked = kThreadSlots + 1;
// Without a destructor, so that it can be read while the thread's other objects are destroyed.
thread_local size_t thread_slot = kNotAsked;

struct GiveBack {
  ~GiveBack() {
    if (thread_slot < kThreadSlots) {
      Slots& slots = AllSlots();
      const std::lock_guard lock(slots.mutex);
      slots.taken.reset(thread_slot);
    }
    thread_slot = kThreadSlots;
  }
};

size_t TakeSlot() {
  thread_local const GiveBack give_back;
  (void)give_back;
  Slots& slots = AllSlots();
  const std::lock_guard lock(slots.mutex);
  size_t slot = 0;
  while (slot < kThreadSlots && slots.taken.test(slot)) ++slot;
  if (slot < kThreadSlots) slots.taken.set(slot);
  return slot;
}

}  // namespace

size_t ThreadSlot() {
  if (thread_slot == kNotAsked) thread_slot = TakeSlot();
  return thread_slot;
}

}  // namespace penstock::metrics
