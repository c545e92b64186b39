// BulkShare: when bulk work goes although interactive work waits, over all engines of a processor.
//
// Counted in time: while both wait, the time of interactive batches adds up, and when it is
// `bulk_every` times that of a bulk batch, bulk gets one. So it gets about 1 / (bulk_every + 1) of
// the processor's time, however long the batches of the two are. What a bulk batch will take is the
// average of the last ones; what it took more or less is made up for at the next.
//
// Any thread; no lock.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "common/request_context.h"

namespace penstock {

class BulkShare {
 public:
  // What an engine says of its bulk batches.
  struct Rule {
    int32_t bulk_every = 8;   // bulk's share of the time is 1 / (bulk_every + 1); at least 1
    int64_t bulk_ns_max = 0;  // of a bulk batch while both wait; 0: unknown
  };
  // One batch's account, from the choice of its class to its end.
  struct Turn {
    bool counts = false;     // both classes waited
    int64_t charged_ns = 0;  // what the choice of bulk cost in advance
    int64_t every = 1;       // bulk_every of the engine whose bulk batch it is
  };

  // Both wait, and `rule` is that of the engine whose bulk batch would be next: the class of the
  // next batch.
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
  // One of them does not wait: nothing is owed.
  void Forget() {
    if (saved_ns_.load(std::memory_order_relaxed) != 0) {
      saved_ns_.store(0, std::memory_order_relaxed);
    }
  }
  // The batch is over. took_ns 0: there was none after all.
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
  // Two at once may lose one of them; it is an estimate.
  static void Average(int64_t newest, std::atomic<int64_t>* average) {
    const int64_t old = average->load(std::memory_order_relaxed);
    average->store(old == 0 ? newest : old + (newest - old) / 4, std::memory_order_relaxed);
  }

  // Interactive time since bulk's last batch, less bulk_every times what bulk had beyond its share.
  std::atomic<int64_t> saved_ns_{0};
  std::atomic<int64_t> bulk_ns_{0};  // of a batch; 0: none yet
  std::atomic<int64_t> interactive_ns_{0};
};

}  // namespace penstock
