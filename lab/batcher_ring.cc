// Penstock's ring as a contender of `penstock-lab batcher`, in three ways of use: a thread of its
// own runs the batches and results are read in place; the same with a callback for each row; and
// without such a thread, where a producer that has nothing else to do runs them.
#include <algorithm>
#include <bit>
#include <memory>

#include "batch/batch_ring.h"
#include "batch/run_writer.h"
#include "batch/runner_set.h"
#include "lab/batcher_cell.h"

namespace penstock::lab {
namespace {

// The arrays of a slot, and a runner over them.
class RingModel {
 public:
  explicit RingModel(const BatcherCell& cell)
      : cell_(cell),
        // A batch stays until its last reader has had a turn on a core.
        batches_(std::bit_ceil(std::clamp(2 * cell.producers, 8u, 64u))),
        ring_(batches_, {.rows = cell.batch_rows}, &ready_),
        runners_(1),
        rows_(size_t{batches_} * cell.batch_rows * cell.row_bytes),
        results_(size_t{batches_} * cell.batch_rows),
        sealed_ns_(batches_) {}
  uint8_t* RowOf(const batch::Reservation& place) {
    return rows_.data() + (size_t{place.slot} * cell_.batch_rows + place.row) * cell_.row_bytes;
  }
  uint32_t* ResultsOf(uint32_t slot) { return results_.data() + size_t{slot} * cell_.batch_rows; }
  // Rows n, n + 1, ... of a producer, in their place.
  void MakeRows(const batch::Reservation& place, uint64_t n, BatcherProducer* producer) {
    uint8_t* row = RowOf(place);
    for (uint32_t i = 0; i < place.rows; ++i, row += cell_.row_bytes) {
      producer->Begin(n + i);
      MakeRow(n + i, row, cell_.row_bytes);
    }
  }
  void RunModel(const batch::BatchRing::Claimed& claimed) {
    sealed_ns_[claimed.slot] = BenchNowNs();
    RunNoopModel(rows_.data() + size_t{claimed.slot} * cell_.batch_rows * cell_.row_bytes,
                 cell_.row_bytes, claimed.rows, ResultsOf(claimed.slot));
  }

 protected:
  const BatcherCell cell_;
  const uint32_t batches_;
  EventCount ready_;
  batch::BatchRing ring_;
  batch::RunnerSet runners_;
  std::vector<uint8_t> rows_;      // [batches, batch_rows, row_bytes]
  std::vector<uint32_t> results_;  // [batches, batch_rows]
  std::vector<int64_t> sealed_ns_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> stop_executor_{false};
};

// How a producer gets its rows: a reservation for each call, or runs (batch/run_writer.h).
enum class Way { kReserve, kTurn, kOpen };

// Results are read where the model wrote them, batch by batch.
template <bool kLeads, Way kWay>
class InPlaceRun : public RingModel {
 public:
  explicit InPlaceRun(const BatcherCell& cell) : RingModel(cell) {
    for (uint32_t i = 0; i < cell.producers; ++i) {
      producers_.push_back(std::make_unique<BatcherProducer>(cell));
    }
  }

  BatcherMeasurement Run() {
    std::vector<std::function<void()>> executors;
    if (!kLeads) executors.push_back([this] { Execute(); });
    return MeasureBatcher(
        cell_, &producers_, &stop_, [this](uint32_t i) { Produce(i); }, executors,
        [this] {
          stop_executor_.store(true);
          ready_.NotifyAll();
        });
  }

 private:
  // A producer's rows in one batch.
  struct Group {
    batch::Reservation place;
    uint32_t rows = 0;
    uint32_t releases = 0;
  };
  static constexpr bool kRuns = kWay != Way::kReserve;

  void RunOne(const batch::BatchRing::Claimed& claimed) {
    RunModel(claimed);
    ring_.Complete(claimed);
  }
  void Execute() {
    batch::ExecuteBatches(
        &ring_, &runners_, &ready_,
        [this](int, const batch::BatchRing::Claimed& claimed) { RunOne(claimed); },
        [this] { return stop_executor_.load(std::memory_order_relaxed); });
  }

  void Produce(uint32_t index) {
    BatcherProducer& self = *producers_[index];
    batch::RunWriter writer(
        &ring_, {.mode = kWay == Way::kTurn ? batch::RunMode::kTurn : batch::RunMode::kOpen,
                 .awaited = true,
                 .notify = !kLeads});
    std::vector<Group> groups(batches_);  // oldest at `first`
    std::vector<uint16_t> rows(cell_.window);
    uint32_t first = 0;
    uint32_t open = 0;
    uint64_t submitted = 0;
    uint64_t taken = 0;
    while (true) {
      bool some = false;
      while (open > 0 && ring_.IsDone(groups[first].place)) {
        Group& group = groups[first];
        const uint32_t* results = ResultsOf(group.place.slot);
        const int64_t sealed_ns = sealed_ns_[group.place.slot];
        for (uint32_t i = 0; i < group.rows; ++i, ++taken) {
          self.TakeResult(taken, results[rows[self.PlaceOf(taken)]], sealed_ns);
        }
        ring_.Release(group.place, group.releases);
        first = (first + 1) % batches_;
        --open;
        some = true;
      }
      const auto room = self.RowsUntilLook(stop_.load(std::memory_order_relaxed), submitted, taken);
      if (!room) return;
      uint64_t left = *room;
      while (left > 0) {
        batch::Reservation place;
        const auto count = static_cast<uint32_t>(std::min<uint64_t>(left, cell_.burst));
        const batch::ReserveResult reserved =
            kRuns ? writer.Take(count, &place) : ring_.Reserve({.rows = count}, &place);
        if (reserved != batch::ReserveResult::kOk) break;
        MakeRows(place, submitted, &self);
        if constexpr (kRuns) {
          writer.Publish();
        } else {
          ring_.PublishAwaited(place, nullptr, !kLeads);
        }
        for (uint32_t i = 0; i < count; ++i) {
          rows[self.PlaceOf(submitted + i)] = static_cast<uint16_t>(place.row + i);
        }
        const uint32_t last = (first + open + batches_ - 1) % batches_;
        if (open == 0 || groups[last].place.epoch != place.epoch) {
          groups[(first + open++) % batches_] = {place, count, kRuns ? count : 1};
        } else {
          groups[last].rows += count;
          groups[last].releases += kRuns ? count : 1;
        }
        left -= count;
        submitted += count;
      }
      writer.EndTurn();
      if (some || (*room > 0 && left == 0)) continue;
      Idle(open > 0 ? &groups[first].place : nullptr);
    }
  }

  void Idle(const batch::Reservation* oldest) {
    if constexpr (kLeads) {
      bool worked = false;
      batch::LeadBatches(
          &ring_, &runners_, &ready_,
          [&](int, const batch::BatchRing::Claimed& claimed) {
            RunOne(claimed);
            worked = true;
          },
          [&] { return oldest == nullptr || ring_.IsDone(*oldest); });
      if (worked) return;
    }
    sched_yield();
  }

  std::vector<std::unique_ptr<BatcherProducer>> producers_;
};

// Each row has a ticket; its callback stands for a coroutine that is resumed.
class CallbackRun : public RingModel {
 public:
  explicit CallbackRun(const BatcherCell& cell) : RingModel(cell) {
    for (uint32_t i = 0; i < cell.producers; ++i) {
      producers_.push_back(std::make_unique<BatcherProducer>(cell));
      inboxes_.push_back(std::make_unique<Inbox>(cell.window));
    }
  }

  BatcherMeasurement Run() {
    return MeasureBatcher(
        cell_, &producers_, &stop_, [this](uint32_t i) { Produce(i); }, {[this] { Execute(); }},
        [this] {
          stop_executor_.store(true);
          ready_.NotifyAll();
        });
  }

 private:
  struct Inbox;
  // The rows of one call, from the ticket's place on.
  struct Ticket : batch::RowTicket {
    uint32_t rows = 0;
    Inbox* inbox = nullptr;
    int64_t sealed_ns = 0;
  };
  struct Inbox {
    explicit Inbox(uint32_t window)
        : tickets(std::make_unique<Ticket[]>(window)), results(window), ticket_of(window) {
      for (uint32_t i = 0; i < window; ++i) {
        tickets[i].inbox = this;
        tickets[i].done = [](batch::RowTicket* base) {
          const auto* ticket = static_cast<Ticket*>(base);
          std::atomic<uint64_t>& count = ticket->inbox->delivered;
          // One executor at a time: no other thread adds.
          count.store(count.load(std::memory_order_relaxed) + ticket->rows,
                      std::memory_order_release);
        };
      }
    }
    std::unique_ptr<Ticket[]> tickets;  // [window], by the place of the first row
    std::vector<uint32_t> results;      // [window]
    std::vector<uint32_t> ticket_of;    // [window]; the producer's own
    alignas(128) std::atomic<uint64_t> delivered{0};
  };

  void Execute() {
    batch::ExecuteBatches(
        &ring_, &runners_, &ready_,
        [this](int, const batch::BatchRing::Claimed& claimed) {
          RunModel(claimed);
          const uint32_t* results = ResultsOf(claimed.slot);
          ring_.ForEachTicket(claimed, [&](uint32_t row, uint32_t rows, batch::RowTicket* base) {
            auto* ticket = static_cast<Ticket*>(base);
            Inbox& inbox = *ticket->inbox;
            const auto place = static_cast<uint32_t>(ticket - inbox.tickets.get());
            for (uint32_t i = 0; i < rows; ++i) {
              inbox.results[(place + i) & (cell_.window - 1)] = results[row + i];
            }
            ticket->sealed_ns = sealed_ns_[claimed.slot];
          });
          ring_.Complete(claimed);
        },
        [this] { return stop_executor_.load(std::memory_order_relaxed); });
  }

  void Produce(uint32_t index) {
    BatcherProducer& self = *producers_[index];
    Inbox& inbox = *inboxes_[index];
    uint64_t submitted = 0;
    uint64_t taken = 0;
    while (true) {
      const uint64_t delivered = inbox.delivered.load(std::memory_order_acquire);
      const bool some = delivered != taken;
      for (; taken < delivered; ++taken) {
        const uint32_t place = self.PlaceOf(taken);
        self.TakeResult(taken, inbox.results[place],
                        inbox.tickets[inbox.ticket_of[place]].sealed_ns);
      }
      const auto room = self.RowsUntilLook(stop_.load(std::memory_order_relaxed), submitted, taken);
      if (!room) return;
      uint64_t left = *room;
      while (left > 0) {
        batch::Reservation place;
        const auto count = static_cast<uint32_t>(std::min<uint64_t>(left, cell_.burst));
        if (ring_.Reserve({.rows = count}, &place) != batch::ReserveResult::kOk) break;
        MakeRows(place, submitted, &self);
        const uint32_t first = self.PlaceOf(submitted);
        for (uint32_t i = 0; i < count; ++i) inbox.ticket_of[self.PlaceOf(submitted + i)] = first;
        inbox.tickets[first].rows = count;
        ring_.Publish(place, &inbox.tickets[first]);
        left -= count;
        submitted += count;
      }
      if (!some && (*room == 0 || left > 0)) sched_yield();
    }
  }

  std::vector<std::unique_ptr<BatcherProducer>> producers_;
  std::vector<std::unique_ptr<Inbox>> inboxes_;
};

template <typename Run>
BatcherMeasurement RunRing(const BatcherCell& cell) {
  return Run(cell).Run();
}

}  // namespace

std::vector<BatcherContender> RingContenders() {
  return {
      {"penstock, executor thread", false, RunRing<InPlaceRun<false, Way::kReserve>>},
      {"penstock, leaders", false, RunRing<InPlaceRun<true, Way::kReserve>>},
      {"penstock, callbacks", false, RunRing<CallbackRun>},
      {"penstock, leaders, runs", false, RunRing<InPlaceRun<true, Way::kOpen>>},
      {"penstock, leaders, turns", false, RunRing<InPlaceRun<true, Way::kTurn>>},
      {"penstock, executor thread, runs", false, RunRing<InPlaceRun<false, Way::kOpen>>},
  };
}

}  // namespace penstock::lab
