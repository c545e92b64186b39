// TensorTotals: what TensorStatistics tells, counted as it happens. Any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>

#include "sched/tensor_scheduler.h"
#include "threads/request_context.h"

namespace penstock::sched {

class TensorTotals {
 public:
  TensorTotals();
  // A request was answered, so long after it was submitted.
  void Answered(bool ok, Clock::duration took) { (ok ? success_ : fail_).Add(1, took); }
  // `requests` came into their first batches; they had waited so long in sum.
  void Queued(uint64_t requests, Clock::duration waited) { queue_.Add(requests, waited); }
  // A run of the model: its inputs were gathered, and it ran. Before its requests are answered, so
  // that whoever has an answer finds its run counted.
  void Ran(uint32_t rows, Clock::duration input, Clock::duration infer);
  // How long it took then to hand out the results of a run of `rows`.
  void HandedOut(uint32_t rows, Clock::duration output);

  TensorStatistics Read() const;

 private:
  struct Sum {
    std::atomic<uint64_t> count{0};
    std::atomic<uint64_t> ns{0};
    void Add(uint64_t more, Clock::duration took) {
      count.fetch_add(more, std::memory_order_relaxed);
      ns.fetch_add(static_cast<uint64_t>(std::chrono::nanoseconds(took).count()),
                   std::memory_order_relaxed);
    }
    TensorStatistics::Times Read() const {
      return {count.load(std::memory_order_relaxed), ns.load(std::memory_order_relaxed)};
    }
  };

  Sum success_, fail_, queue_;
  mutable std::mutex mutex_;
  TensorStatistics runs_;  // guarded by mutex_; all but the three above
};

}  // namespace penstock::sched
