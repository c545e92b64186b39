// A barrier for threads that meet again within microseconds: a decode step has some hundred.
//
// It is a tree of two levels: threads that share an L3 cache count on one word and spin on another;
// the last of them counts for all at the root, and the last of all lets every domain go. So a line
// goes from one L3 cache to another once a domain, not once a thread.
//
// Waiting threads spin, then yield, so that more threads than processors go on too. Under a quota
// of processor time (`spin` is false) they sleep after a moment instead: what they spend in waiting
// is taken from the threads they wait for.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "threads/event_count.h"

namespace penstock {

class SpinBarrier {
 public:
  // `l3`: the L3 cache of each thread; empty: all share one. `at_once`: threads that can run at the
  // same time; those of more yield as soon as they wait.
  explicit SpinBarrier(size_t threads, bool spin = true, std::vector<size_t> l3 = {},
                       size_t at_once = SIZE_MAX)
      : spin_(spin), at_once_(at_once), l3_(std::move(l3)) {
    l3_.resize(threads, 0);
    const size_t last = threads == 0 ? 0 : *std::max_element(l3_.begin(), l3_.end());
    domains_ = std::vector<Domain>(last + 1);
    SetThreads(threads);
  }
  SpinBarrier(const SpinBarrier&) = delete;
  SpinBarrier& operator=(const SpinBarrier&) = delete;

  // From now on the first `threads` meet. No thread may be waiting.
  void SetThreads(size_t threads) {
    if (threads == threads_) return;
    threads_ = threads;
    spins_ = threads > at_once_ ? 0 : kSpins;
    used_domains_ = 0;
    for (Domain& domain : domains_) domain.threads = 0;
    for (size_t thread = 0; thread < threads; ++thread) {
      if (domains_[l3_[thread]].threads++ == 0) ++used_domains_;
    }
  }

  // Returns once all threads have called it. What a thread wrote before is seen by all after.
  void Wait(size_t thread) {
    Domain& mine = domains_[l3_[thread]];
    // It cannot change before this thread has arrived.
    const uint32_t round = mine.round.load(std::memory_order_relaxed);
    if (mine.arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == mine.threads) {
      mine.arrived.store(0, std::memory_order_relaxed);
      if (used_domains_ == 1) return LetGo(&mine);
      if (root_.fetch_add(1, std::memory_order_acq_rel) + 1 == used_domains_) {
        root_.store(0, std::memory_order_relaxed);
        for (Domain& domain : domains_) {
          if (domain.threads > 0) LetGo(&domain);
        }
        return;
      }
    }
    if (!spin_) return SleepUntilAfter(&mine, round);
    for (uint32_t spins = 0; mine.round.load(std::memory_order_acquire) == round; ++spins) {
      SystemSync::Pause();
      if (spins >= spins_) SystemSync::Yield();
    }
  }

 private:
  static constexpr uint32_t kSpins = 4096;
  static constexpr uint32_t kSpinsBeforeSleep = 256;  // about 10 us: shares are nearly even

  // Threads that share an L3 cache. Its words are apart by 128 bytes: two lines are fetched at a
  // time.
  struct Domain {
    alignas(128) std::atomic<uint32_t> arrived{0};
    alignas(128) std::atomic<uint32_t> round{0};
    std::atomic<uint32_t> sleepers{0};
    alignas(128) uint32_t threads = 0;
  };

  void LetGo(Domain* domain) const {
    // seq_cst here and below: this thread sees the sleeper, or the sleeper the new round.
    domain->round.store(domain->round.load(std::memory_order_relaxed) + 1,
                        spin_ ? std::memory_order_release : std::memory_order_seq_cst);
    if (!spin_ && domain->sleepers.load(std::memory_order_seq_cst) > 0) {
      FutexWake(&domain->round, INT32_MAX);
    }
  }

  static void SleepUntilAfter(Domain* domain, uint32_t round) {
    for (uint32_t spins = 0; spins < kSpinsBeforeSleep; ++spins) {
      if (domain->round.load(std::memory_order_acquire) != round) return;
      SystemSync::Pause();
    }
    domain->sleepers.fetch_add(1, std::memory_order_seq_cst);
    while (domain->round.load(std::memory_order_seq_cst) == round) {
      FutexWait(&domain->round, round);
    }
    domain->sleepers.fetch_sub(1, std::memory_order_seq_cst);
  }

  const bool spin_;
  const size_t at_once_;
  uint32_t spins_ = kSpins;  // before a thread yields
  std::vector<size_t> l3_;
  size_t threads_ = 0;
  uint32_t used_domains_ = 0;
  std::vector<Domain> domains_;
  alignas(128) std::atomic<uint32_t> root_{0};  // domains that have arrived
};

}  // namespace penstock
