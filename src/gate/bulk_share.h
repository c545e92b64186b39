// BulkShare: decides when a bulk batch runs while interactive work waits, over all engines of a
// processor.
//
// Counted in time: while both wait, the time of interactive batches adds up, and when it reaches
// `bulk_every` times that of a bulk batch, bulk gets one. So bulk gets about 1 / (bulk_every + 1)
// of the processor's time, however long the batches of the two are. A bulk batch's time is
// estimated as the average of the last ones; the error is made up for at the next.
//
// Any thread; no lock.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "threads/request_context.h"

namespace penstock::gate {

class BulkShare {
 public:
  // An engine's settings of its bulk batches.
  struct Rule {
    int32_t bulk_every = 8;   // bulk's share of the time is 1 / (bulk_every + 1); at least 1
    int64_t bulk_ns_max = 0;  // longest bulk batch while both wait; 0: unknown
  };
  // One batch's account, from the choice of its class to its end.
  struct Turn {
    bool counts = false;     // both classes waited
    int64_t charged_ns = 0;  // taken from the time saved up when bulk was chosen
    int64_t every = 1;       // bulk_every of the engine whose bulk batch it is
  };

  // The class of the next batch, while both wait. `rule`: of the engine whose bulk batch would be
  // next.
  Priority Choose(const Rule& rule, Turn* turn) {
    turn->counts = true;
    turn->every = std::max(1, rule.bulk_every);
    const int64_t price = turn->every * Expected(rule.bulk_ns_max);
    int64_t saved = saved_ns_.load(std::memory_order_relaxed);
    while (saved > 0 && saved >= price) {
      if (saved_ns_.compare_exchange_weak(saved, saved - price, std::memory_order_relaxed)) {
        turn->charged_ns = price;
        return Priority::kBulk;
      }
    }
    return Priority::kInteractive;
  }
  // To be called when one class does not wait: drops the time saved up.
  void Forget() {
    if (saved_ns_.load(std::memory_order_relaxed) != 0) {
      saved_ns_.store(0, std::memory_order_relaxed);
    }
  }
  // The batch is over. took_ns 0: no batch was run.
  void Ended(const Turn& turn, Priority priority, int64_t took_ns) {
    const bool bulk = priority == Priority::kBulk;
    if (took_ns > 0) Average(took_ns, bulk ? &bulk_ns_ : &interactive_ns_);
    if (!turn.counts) return;
    saved_ns_.fetch_add(bulk ? turn.charged_ns - turn.every * took_ns : took_ns,
                        std::memory_order_relaxed);
  }

 private:
  int64_t Expected(int64_t bulk_ns_max) const {
    int64_t ns = bulk_ns_.load(std::memory_order_relaxed);
    if (ns == 0) ns = interactive_ns_.load(std::memory_order_relaxed);
    return bulk_ns_max > 0 ? std::min(ns, bulk_ns_max) : ns;
  }
  // Concurrent calls may lose an update; the average is an estimate.
  static void Average(int64_t newest, std::atomic<int64_t>* average) {
    const int64_t old = average->load(std::memory_order_relaxed);
    average->store(old == 0 ? newest : old + (newest - old) / 4, std::memory_order_relaxed);
  }

  // Interactive time since bulk's last batch, less bulk_every times the time bulk took beyond its
  // share.
  std::atomic<int64_t> saved_ns_{0};
  std::atomic<int64_t> bulk_ns_{0};  // of a batch; 0: none yet
  std::atomic<int64_t> interactive_ns_{0};
};

}  // namespace penstock::gate
