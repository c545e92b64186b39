#include "common/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "common/event_count.h"
#include "common/waiting_lock.h"

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

std::vector<int> UsableCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
    }
  }
  if (cpus.empty()) cpus.push_back(0);
  return cpus;
}

void RunOnlyOn(std::span<const int> cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(static_cast<size_t>(cpu), &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

}  // namespace

ThreadPool::ThreadPool(size_t threads, bool pin, bool spin) : spin_(spin) {
  threads = std::clamp<size_t>(threads, 1, kThreadsMax);
  const std::vector<int> cpus = UsableCpus();
  pin = pin && threads > 1 && threads == cpus.size();
  if (pin) {
    caller_cpus_ = cpus;
    caller_cpus_.erase(caller_cpus_.begin() + 1,
                       caller_cpus_.begin() + static_cast<ptrdiff_t>(threads));
  }
  workers_.reserve(threads - 1);
  try {
    for (size_t thread = 1; thread < threads; ++thread) {
      const int cpu = pin ? cpus[thread] : -1;
      workers_.emplace_back([this, thread, cpu] { WorkerMain(thread, cpu); });
    }
  } catch (...) {
    StopWorkers();
    throw;
  }
}

ThreadPool::~ThreadPool() { StopWorkers(); }

void ThreadPool::PlaceCaller() const {
  if (!caller_cpus_.empty()) RunOnlyOn(caller_cpus_);
}

void ThreadPool::StopWorkers() {
  stop_.store(true, std::memory_order_seq_cst);
  wake_.fetch_add(1, std::memory_order_seq_cst);
  FutexWake(&wake_, INT32_MAX);
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Work(uint64_t epoch, size_t thread) {
  while (true) {
    const uint64_t ticket = ticket_.load(std::memory_order_relaxed);
    if (Epoch(ticket) != epoch || Next(ticket) >= Count(ticket)) return;
    const uint64_t mine = ticket_.fetch_add(1, std::memory_order_acquire);
    // A new loop may have been published in between: the index is then one of that loop.
    epoch = Epoch(mine);
    if (Next(mine) >= Count(mine)) return;
    if (gang_) WaitForGang(Count(mine));
    Call(fn_, context_, first_ + Next(mine), thread);
    const bool gang = gang_;  // before the loop may end
    const uint32_t before = done_.fetch_add(1, std::memory_order_release);
    if (!spin_ && before + 1 == Count(mine)) FutexWake(&done_, 1);  // the caller
    if (gang) return;
  }
}

void ThreadPool::WaitForGang(uint64_t count) {
  if (!spin_) {
    uint32_t here = gathered_.fetch_add(1, std::memory_order_acq_rel) + 1;
    if (here == count) return FutexWake(&gathered_, INT32_MAX);
    for (; here != count; here = gathered_.load(std::memory_order_acquire)) {
      FutexWait(&gathered_, here);
    }
    return;
  }
  for (uint32_t spins = 0;; ++spins) {
    const uint64_t ticket = ticket_.load(std::memory_order_relaxed);
    if (Next(ticket) >= Count(ticket)) return;
    SystemSync::Pause();
    if (spins > kSpinsBeforeYield) sched_yield();
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

void ThreadPool::RunGang(LoopFn fn, void* context) {
  const WaitingLock lock(&caller_mutex_);
  if (workers_.empty()) return fn(context, 0, 0);
  gang_ = true;
  RunPart(0, threads(), fn, context);
  gang_ = false;
}

void ThreadPool::RunPart(size_t first, size_t count, LoopFn fn, void* context) {
  fn_ = fn;
  context_ = context;
  first_ = first;
  done_.store(0, std::memory_order_relaxed);
  gathered_.store(0, std::memory_order_relaxed);
  const uint64_t epoch =
      (Epoch(ticket_.load(std::memory_order_relaxed)) + 1) & ((uint64_t{1} << 24) - 1);
  ticket_.store(MakeTicket(epoch, count), std::memory_order_release);
  // seq_cst on wake_ and sleepers_: either this thread sees the sleeper, or the sleeper sees
  // that wake_ has changed and does not sleep.
  wake_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) FutexWake(&wake_, INT32_MAX);

  Work(epoch, 0);
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

void ThreadPool::WorkerMain(size_t thread, int cpu) {
  if (cpu >= 0) RunOnlyOn({&cpu, 1});
  pthread_setname_np(pthread_self(), ("compute-" + std::to_string(thread)).c_str());

  uint32_t seen = 0;
  while (true) {
    const auto spin_until =
        std::chrono::steady_clock::now() + (spin_ ? kSpinTime : std::chrono::microseconds(0));
    uint32_t spins = 0;
    while (wake_.load(std::memory_order_acquire) == seen) {
      SystemSync::Pause();
      if (++spins % 64 == 0 && std::chrono::steady_clock::now() >= spin_until) {
        sleepers_.fetch_add(1, std::memory_order_seq_cst);
        if (wake_.load(std::memory_order_seq_cst) == seen) FutexWait(&wake_, seen);
        sleepers_.fetch_sub(1, std::memory_order_seq_cst);
      }
    }
    seen = wake_.load(std::memory_order_acquire);
    if (stop_.load(std::memory_order_acquire)) return;
    Work(Epoch(ticket_.load(std::memory_order_relaxed)), thread);
  }
}

}  // namespace penstock
