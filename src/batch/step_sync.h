// StepSync: atomics and sleeping for tests, where a seeded scheduler decides which thread takes the
// next step. In place of SystemSync (threads/event_count.h).
//
// The threads are fibers of one real thread. Each operation on an atomic is a step: before it the
// scheduler may go on with another fiber. So a seed names one interleaving, which can be run again,
// and a state in which all fibers sleep shows a lost wake-up. The memory is sequentially
// consistent; weaker orders are checked by the thread sanitizer and by argument.
#pragma once

#include <ucontext.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "base/status.h"

namespace penstock::batch {

class StepScheduler {
 public:
  enum class End { kDone, kAllAsleep, kTooManySteps };

  explicit StepScheduler(uint64_t seed) : random_(seed) {
    // How often the scheduler changes fibers, and whether it lets one stand still for long: the
    // schedules that find faults differ in that.
    switch_one_in_ = 1u << (random_() % 6);
    stalls_ = random_() % 2 == 0;
    early_wakes_ = random_() % 4 == 0;
  }

  void Spawn(std::function<void()> body) {
    auto fiber = std::make_unique<Fiber>();
    fiber->body = std::move(body);
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = sizeof fiber->stack;
    fiber->context.uc_link = &main_;
    makecontext(&fiber->context, &StepScheduler::Enter, 0);
    fibers_.push_back(std::move(fiber));
  }

  // Runs until all fibers ended.
  End Run(uint64_t steps_max) {
    current_ = this;
    steps_left_ = steps_max;
    End end = End::kDone;
    while (steps_left_ > 0) {
      const int next = Pick(/*awake_only=*/true);
      if (next < 0) {
        for (const auto& fiber : fibers_) {
          if (!fiber->ended) end = End::kAllAsleep;
        }
        current_ = nullptr;
        return end;
      }
      running_ = next;
      swapcontext(&main_, &fibers_[next]->context);
    }
    current_ = nullptr;
    return End::kTooManySteps;
  }

  static StepScheduler* current() { return current_; }

  // Before each step: perhaps another fiber goes first.
  void Step() {
    if (steps_left_ > 0) --steps_left_;
    if (steps_left_ == 0 || random_() % switch_one_in_ == 0) Leave();
  }
  // This fiber waits for another: that one first.
  void Yield() {
    if (steps_left_ > 0) --steps_left_;
    Leave();
  }
  void Sleep(const void* word) {
    Fiber& self = *fibers_[running_];
    self.asleep_on = word;
    Leave();
  }
  void Wake(const void* word, int32_t count) {
    // Any of the sleepers may be the one: start anywhere.
    const size_t first = random_() % fibers_.size();
    for (size_t i = 0; i < fibers_.size() && count > 0; ++i) {
      Fiber& fiber = *fibers_[(first + i) % fibers_.size()];
      if (fiber.asleep_on != word) continue;
      fiber.asleep_on = nullptr;
      --count;
    }
  }
  bool Chance(uint32_t one_in) { return random_() % one_in == 0; }

 private:
  struct Fiber {
    ucontext_t context;
    std::function<void()> body;
    const void* asleep_on = nullptr;
    uint64_t stalled_until = 0;  // steps_left_ at which it may go on
    bool ended = false;
    alignas(64) char stack[128 << 10];
  };

  static void Enter() {
    StepScheduler* self = current_;
    Fiber& fiber = *self->fibers_[self->running_];
    fiber.body();
    fiber.ended = true;
  }
  void Leave() { swapcontext(&fibers_[running_]->context, &main_); }

  int Pick(bool awake_only) {
    int picked = -1;
    uint32_t seen = 0;
    for (size_t i = 0; i < fibers_.size(); ++i) {
      Fiber& fiber = *fibers_[i];
      if (fiber.ended) continue;
      if (fiber.asleep_on != nullptr) {
        // A futex may return early.
        if (!early_wakes_ || !Chance(64)) continue;
        fiber.asleep_on = nullptr;
      }
      if (awake_only && fiber.stalled_until != 0 && steps_left_ > fiber.stalled_until) continue;
      fiber.stalled_until = 0;
      if (random_() % ++seen == 0) picked = static_cast<int>(i);
    }
    if (picked < 0) return awake_only && AnyAwake() ? Pick(false) : -1;
    if (stalls_ && Chance(64)) {
      fibers_[picked]->stalled_until = steps_left_ > 400 ? steps_left_ - random_() % 400 : 0;
    }
    return picked;
  }
  bool AnyAwake() const {
    for (const auto& fiber : fibers_) {
      if (!fiber->ended && fiber->asleep_on == nullptr) return true;
    }
    return false;
  }

  inline static StepScheduler* current_ = nullptr;
  std::mt19937_64 random_;
  uint32_t switch_one_in_;
  bool stalls_;
  bool early_wakes_;
  ucontext_t main_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  int running_ = 0;
  uint64_t steps_left_ = 0;
};

struct StepSync {
  static void Step() {
    if (StepScheduler* scheduler = StepScheduler::current()) scheduler->Step();
  }

  template <typename T>
  class Atomic {
   public:
    Atomic() = default;
    Atomic(T value) : value_(value) {}  // NOLINT: as std::atomic
    T load(std::memory_order) const {
      Step();
      return value_;
    }
    void store(T value, std::memory_order) {
      Step();
      value_ = value;
    }
    T fetch_add(T value, std::memory_order) {
      return Change([value](T old) { return static_cast<T>(old + value); });
    }
    T fetch_sub(T value, std::memory_order) {
      return Change([value](T old) { return static_cast<T>(old - value); });
    }
    T fetch_or(T value, std::memory_order) {
      return Change([value](T old) { return static_cast<T>(old | value); });
    }
    T exchange(T value, std::memory_order) {
      return Change([value](T) { return value; });
    }
    bool compare_exchange_strong(T& expected, T value, std::memory_order) {
      Step();
      if (value_ != expected) {
        expected = value_;
        return false;
      }
      value_ = value;
      return true;
    }
    bool compare_exchange_weak(T& expected, T value, std::memory_order order) {
      StepScheduler* scheduler = StepScheduler::current();
      if (scheduler != nullptr && scheduler->Chance(16)) return false;
      return compare_exchange_strong(expected, value, order);
    }

   private:
    friend struct StepSync;
    template <typename F>
    T Change(F f) {
      Step();
      const T old = value_;
      value_ = f(old);
      return old;
    }
    T value_{};
  };

  struct Spin {
    void Once() { StepScheduler::current()->Yield(); }
  };
  static void Wait(const Atomic<uint32_t>* word, uint32_t expected, int64_t) {
    Step();
    if (word->value_ == expected) StepScheduler::current()->Sleep(word);
  }
  static void Wake(const Atomic<uint32_t>* word, int32_t count) {
    Step();
    StepScheduler::current()->Wake(word, count);
  }
  static constexpr int kWaitSpins = 2;
  static constexpr int kYieldsBeforeSleep = 1;
  static void Yield() { StepScheduler::current()->Yield(); }
  static void Pause() { StepScheduler::current()->Yield(); }
};

}  // namespace penstock::batch
