#include <time.h>

#include <algorithm>
#include <array>
#include <functional>
#include <random>
#include <thread>

#include "batch/batch_ring.h"
#include "batch/runner_set.h"
#include "lab/batcher_cell.h"
#include "lab/batcher_ring.h"

namespace penstock::lab {
namespace {

// A thread that runs the batches of a ring until it is destroyed.
template <typename Run>
class ExecutorThread {
 public:
  ExecutorThread(batch::BatchRing* ring, batch::RunnerSet* runners, EventCount* ready, Run run)
      : ready_(ready), thread_([this, ring, runners, ready, run] {
          batch::ExecuteBatches(ring, runners, ready, run, [this] { return stop_.load(); });
        }) {}
  ~ExecutorThread() {
    stop_.store(true);
    ready_->NotifyAll();
    thread_.join();
  }

 private:
  EventCount* const ready_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// A lone request: a row of 128 bytes.
constexpr uint32_t kRowBytes = 128;
constexpr uint32_t kBatches = 4;

class LoneRequests {
 public:
  explicit LoneRequests(bool leads)
      : leads_(leads),
        ring_(kBatches, {.rows = 32}, &ready_),
        runners_(1),
        executor_(&ring_, &runners_, &ready_,
                  [this](int, const batch::BatchRing::Claimed& claimed) { Run(claimed); }) {}

  uint32_t Send(uint64_t n) {
    batch::Reservation place;
    while (ring_.Reserve({}, &place) != batch::ReserveResult::kOk) sched_yield();
    MakeRow(n, &rows_[place.slot][size_t{place.row} * kRowBytes], kRowBytes);
    ring_.PublishAwaited(place, nullptr, !leads_);
    if (leads_) {
      batch::LeadBatches(
          &ring_, &runners_, &ready_,
          [this](int, const batch::BatchRing::Claimed& claimed) { Run(claimed); },
          [&] { return ring_.IsDone(place); });
    }
    ring_.Wait(place);
    const uint32_t result = results_[place.slot][place.row];
    ring_.Release(place);
    return result;
  }

 private:
  void Run(const batch::BatchRing::Claimed& claimed) {
    RunNoopModel(rows_[claimed.slot].data(), kRowBytes, claimed.rows,
                 results_[claimed.slot].data());
    ring_.Complete(claimed);
  }

  const bool leads_;
  EventCount ready_;
  batch::BatchRing ring_;
  batch::RunnerSet runners_;
  std::array<std::array<uint8_t, 32 * kRowBytes>, kBatches> rows_{};
  std::array<std::array<uint32_t, 32>, kBatches> results_{};
  ExecutorThread<std::function<void(int, const batch::BatchRing::Claimed&)>> executor_;
};

double ProcessorSeconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

void SleepUntilNs(int64_t at_ns) {
  // The timer may be late by more than the measured time: the last part is spent spinning.
  constexpr int64_t kLookNs = 300'000;
  const int64_t sleep_ns = at_ns - kLookNs - BenchNowNs();
  if (sleep_ns > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(sleep_ns));
  while (BenchNowNs() < at_ns) {
  }
}

}  // namespace

double MeasureReservations(uint32_t producers, double seconds) {
  EventCount ready;
  batch::BatchRing ring(8, {.rows = 1024}, &ready);
  batch::RunnerSet runners(1);
  std::atomic<bool> stop{false};
  struct alignas(128) Count {
    std::atomic<uint64_t> reserved{0};
  };
  std::vector<Count> counts(producers);
  const auto drain = [&ring](int, const batch::BatchRing::Claimed& claimed) {
    ring.Complete(claimed);
  };
  ExecutorThread<decltype(drain)> executor(&ring, &runners, &ready, drain);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < producers; ++i) {
    threads.emplace_back([&, i] {
      uint64_t reserved = 0;
      batch::Reservation place;
      while (!stop.load(std::memory_order_relaxed)) {
        for (uint32_t k = 0; k < kRowsPerLook; ++k) {
          if (ring.Reserve({}, &place) != batch::ReserveResult::kOk) {
            sched_yield();
            break;
          }
          ring.Publish(place, nullptr);
          ++reserved;
        }
        counts[i].reserved.store(reserved, std::memory_order_relaxed);
      }
    });
  }
  const auto sum = [&counts] {
    uint64_t reserved = 0;
    for (const Count& count : counts) reserved += count.reserved.load(std::memory_order_relaxed);
    return reserved;
  };
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds / 5));
  const uint64_t before = sum();
  const int64_t before_ns = BenchNowNs();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  const double rate =
      static_cast<double>(sum() - before) / (static_cast<double>(BenchNowNs() - before_ns) * 1e-9);
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  return rate;
}

AddedLatency MeasureAddedLatency(double rate, double seconds) {
  LoneRequests led(/*leads=*/true);
  LoneRequests handed(/*leads=*/false);
  std::array<uint8_t, kRowBytes> row{};
  AddedLatency latency;
  std::mt19937_64 random(1);
  std::exponential_distribution<double> gap_s(rate * 3);  // three ways in turn
  const auto requests = static_cast<uint64_t>(std::max(3.0, rate * seconds * 3));
  int64_t at_ns = BenchNowNs();
  uint64_t wrong = 0;
  for (uint64_t n = 0; n < requests; ++n) {
    // Open loop: should a request take longer than the gap, the next one's time counts all the
    // same.
    at_ns += static_cast<int64_t>(gap_s(random) * 1e9);
    SleepUntilNs(at_ns);
    uint32_t result = 0;
    if (n % 3 == 0) {
      MakeRow(n, row.data(), kRowBytes);
      RunNoopModel(row.data(), kRowBytes, 1, &result);
    } else {
      result = (n % 3 == 1 ? led : handed).Send(n);
    }
    const double us = static_cast<double>(BenchNowNs() - at_ns) * 1e-3;
    wrong += result != ResultOfRow(n, kRowBytes);
    (n % 3 == 0   ? latency.direct_us
     : n % 3 == 1 ? latency.leader_us
                  : latency.handed_us)
        .push_back(us);
  }
  PENSTOCK_CHECK(wrong == 0);
  for (auto* samples : {&latency.direct_us, &latency.leader_us, &latency.handed_us}) {
    std::sort(samples->begin(), samples->end());
  }
  return latency;
}

double MeasureIdleProcessor(double seconds) {
  LoneRequests idle(/*leads=*/false);
  idle.Send(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the executor has gone to sleep
  const double before = ProcessorSeconds();
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  return (ProcessorSeconds() - before) / seconds;
}

}  // namespace penstock::lab
