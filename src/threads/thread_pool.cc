#include "threads/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "threads/event_count.h"
#include "threads/waiting_lock.h"

namespace penstock {
namespace {

constexpr uint64_t kFieldBits = 20;
constexpr uint64_t kFieldMask = (uint64_t{1} << kFieldBits) - 1;

uint64_t Epoch(uint64_t ticket) { return ticket >> (2 * kFieldBits); }
uint64_t Count(uint64_t ticket) { return (ticket >> kFieldBits) & kFieldMask; }
uint64_t Next(uint64_t ticket) { return ticket & kFieldMask; }
uint64_t MakeTicket(uint64_t epoch, uint64_t count) {
  return (epoch << (2 * kFieldBits)) | (count << kFieldBits);
}

// About as long as a sleep and a wake cost (15-20 us each on a Zen 4 under KVM).
constexpr auto kSpinTime = std::chrono::microseconds(50);
constexpr uint32_t kSpinsBeforeYield = 4096;

constexpr uint64_t kGangCountBits = 16;
static_assert(ThreadPool::kThreadsMax < uint64_t{1} << kGangCountBits);
uint64_t GangId(uint64_t gang) { return gang >> kGangCountBits; }
size_t GangCount(uint64_t gang) { return gang & ((uint64_t{1} << kGangCountBits) - 1); }

// A sleeper's bit, by which a gang wakes its members alone. The threads beyond share the last.
uint32_t SleepBit(size_t thread) { return uint32_t{1} << std::min<size_t>(thread, 31); }
uint32_t SleepBits(size_t count) { return count > 31 ? ~uint32_t{0} : SleepBit(count) - 1; }

ThreadPlan PlanOf(size_t threads, bool pin, bool spin) {
  ThreadPlan plan;
  if (pin) plan = PlanThreads(threads, true, {threads, threads, 0, nullptr}, ReadTopology());
  plan.threads = threads;
  plan.spin = spin;
  return plan;
}

}  // namespace

void RunOnlyOn(std::span<const int> processors) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int processor : processors) CPU_SET(static_cast<size_t>(processor), &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

KeptAffinity::KeptAffinity()
    : known_(pthread_getaffinity_np(pthread_self(), sizeof(set_), &set_) == 0) {}

KeptAffinity::~KeptAffinity() {
  if (known_) pthread_setaffinity_np(pthread_self(), sizeof(set_), &set_);
}

ThreadPool::ThreadPool(size_t threads, bool pin, bool spin)
    : ThreadPool(PlanOf(threads, pin, spin)) {}

ThreadPool::ThreadPool(const ThreadPlan& plan) : spin_(plan.spin) {
  const size_t threads = std::clamp<size_t>(plan.threads, 1, kThreadsMax);
  const bool pin = threads > 1 && plan.places.size() == threads;
  if (pin) caller_place_ = plan.places[0];
  workers_.reserve(threads - 1);
  try {
    for (size_t thread = 1; thread < threads; ++thread) {
      std::vector<int> place = pin ? plan.places[thread] : std::vector<int>();
      workers_.emplace_back(
          [this, thread, place = std::move(place)] { WorkerMain(thread, place); });
    }
  } catch (...) {
    StopWorkers();
    throw;
  }
}

ThreadPool::~ThreadPool() { StopWorkers(); }

void ThreadPool::PlaceCaller() const {
  if (!caller_place_.empty()) RunOnlyOn(caller_place_);
}

void ThreadPool::StopWorkers() {
  stop_.store(true, std::memory_order_seq_cst);
  wake_.fetch_add(1, std::memory_order_seq_cst);
  FutexWake(&wake_, INT32_MAX);
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Wake(size_t count) {
  // seq_cst on wake_ and sleepers_: either this thread sees the sleeper, or the sleeper sees that
  // wake_ has changed and does not sleep.
  wake_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) FutexWakeOf(&wake_, SleepBits(count));
}

void ThreadPool::Work(uint64_t epoch, size_t thread) {
  while (true) {
    const uint64_t ticket = ticket_.load(std::memory_order_relaxed);
    if (Epoch(ticket) != epoch || Next(ticket) >= Count(ticket)) return;
    const uint64_t mine = ticket_.fetch_add(1, std::memory_order_acquire);
    // A new loop may have been published in between: the index is then one of that loop.
    epoch = Epoch(mine);
    if (Next(mine) >= Count(mine)) return;
    Call(fn_, context_, first_ + Next(mine), thread);
    CountDone(Count(mine));
  }
}

void ThreadPool::CountDone(size_t count) {
  const uint32_t before = done_.fetch_add(1, std::memory_order_release);
  if (!spin_ && before + 1 == count) FutexWake(&done_, 1);
}

void ThreadPool::WaitUntilDone(size_t count) {
  if (!spin_) {
    for (uint32_t now; (now = done_.load(std::memory_order_acquire)) != count;) {
      FutexWait(&done_, now);
    }
    return;
  }
  for (uint32_t spins = 0; done_.load(std::memory_order_acquire) != count; ++spins) {
    SystemSync::Pause();
    if (spins > kSpinsBeforeYield) sched_yield();  // a worker may wait for this processor
  }
}

void ThreadPool::Call(LoopFn fn, void* context, size_t index, size_t thread) {
  try {
    fn(context, index, thread);
  } catch (...) {
    if (!failed_.exchange(true, std::memory_order_relaxed)) error_ = std::current_exception();
  }
}

void ThreadPool::Run(size_t count, LoopFn fn, void* context) {
  // Thread 0's scratch belongs to the holder of the mutex.
  const WaitingLock lock(&caller_mutex_);
  if (count <= 1 || workers_.empty()) {
    for (size_t i = 0; i < count; ++i) Call(fn, context, i, 0);
  } else {
    for (size_t first = 0; first < count; first += kCountMax) {
      RunPart(first, std::min(kCountMax, count - first), fn, context);
    }
  }
  if (failed_.load(std::memory_order_relaxed)) [[unlikely]] {
    failed_.store(false, std::memory_order_relaxed);
    std::rethrow_exception(std::exchange(error_, nullptr));
  }
}

void ThreadPool::RunGang(size_t count, LoopFn fn, void* context) {
  const WaitingLock lock(&caller_mutex_);
  if (count <= 1 || workers_.empty()) return fn(context, 0, 0);
  fn_ = fn;
  context_ = context;
  done_.store(0, std::memory_order_relaxed);
  const uint64_t id = GangId(gang_.load(std::memory_order_relaxed)) + 1;
  gang_.store(id << kGangCountBits | count, std::memory_order_release);
  Wake(count);
  fn(context, 0, 0);
  CountDone(count);
  WaitUntilDone(count);
}

void ThreadPool::RunPart(size_t first, size_t count, LoopFn fn, void* context) {
  fn_ = fn;
  context_ = context;
  first_ = first;
  done_.store(0, std::memory_order_relaxed);
  const uint64_t epoch =
      (Epoch(ticket_.load(std::memory_order_relaxed)) + 1) & ((uint64_t{1} << 24) - 1);
  ticket_.store(MakeTicket(epoch, count), std::memory_order_release);
  Wake(threads());
  Work(epoch, 0);
  WaitUntilDone(count);
}

void ThreadPool::WorkerMain(size_t thread, std::span<const int> place) {
  if (!place.empty()) RunOnlyOn(place);
  pthread_setname_np(pthread_self(), ("compute-" + std::to_string(thread)).c_str());

  uint32_t seen = 0;
  uint64_t last_gang = 0;
  // Whether to spin: false after gangs that left this thread out, the last of which it may have
  // slept through.
  bool wanted = true;
  while (true) {
    const bool spin = spin_ && wanted;
    const auto spin_until =
        std::chrono::steady_clock::now() + (spin ? kSpinTime : std::chrono::microseconds(0));
    uint32_t spins = 0;
    while (wake_.load(std::memory_order_acquire) == seen) {
      SystemSync::Pause();
      if (++spins % 64 == 0 && std::chrono::steady_clock::now() >= spin_until) {
        sleepers_.fetch_add(1, std::memory_order_seq_cst);
        if (wake_.load(std::memory_order_seq_cst) == seen) {
          FutexWaitAs(&wake_, seen, SleepBit(thread));
        }
        sleepers_.fetch_sub(1, std::memory_order_seq_cst);
      }
    }
    seen = wake_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_acquire)) return;
    const uint64_t gang = gang_.load(std::memory_order_acquire);
    const bool new_gang = GangId(gang) != std::exchange(last_gang, GangId(gang));
    wanted = !new_gang || thread < GangCount(gang);
    if (new_gang && wanted) {
      Call(fn_, context_, thread, thread);
      CountDone(GangCount(gang));
    } else {
      Work(Epoch(ticket_.load(std::memory_order_relaxed)), thread);
    }
  }
}

}  // namespace penstock
