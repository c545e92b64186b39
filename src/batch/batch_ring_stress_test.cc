// The ring under many more threads than cores: rows by callback and awaited, one and many a
// reservation, small costs and those that go by compare-and-swap, cancellation, failing batches,
// leaders, runs in both modes, a ring that is full most of the time. Every row gets its own result
// exactly once. Short under the thread sanitizer, which checks the memory orders.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "batch/batch_ring.h"
#include "batch/run_writer.h"
#include "batch/runner_set.h"

namespace penstock::batch {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr uint32_t kPieces = 150;
#else
constexpr uint32_t kPieces = 2000;
#endif
constexpr uint32_t kRowsMax = 48;

uint64_t ResultOf(uint64_t id) { return id * 0x9e3779b97f4a7c15 + 1; }

struct Piece : RowTicket {
  class Stress* stress = nullptr;
  Reservation place;
  uint64_t first_id = 0;
  std::atomic<uint32_t> ends{0};
  uint32_t wrong = 0;
  bool awaited = false;
  bool with_ticket = true;
  bool in_run = false;
};

struct StressOptions {
  uint32_t producers = 32;
  uint32_t executors = 1;
  uint32_t runners = 1;
  uint32_t batches = 4;
  BatchCost limits = {.rows = kRowsMax, .units = 6000, .work = 100};
  bool leaders = false;
  bool runs = false;  // three of four producers write runs
  uint64_t first_epoch = BatchRing::kEpochs - 50;
};

class Stress {
 public:
  explicit Stress(const StressOptions& options)
      : options_(options),
        ring_(options.batches, options.limits, &ready_, options.first_epoch),
        runners_(options.runners),
        inputs_(size_t{options.batches} * kRowsMax),
        outputs_(size_t{options.batches} * kRowsMax),
        owners_(size_t{options.batches} * kRowsMax),
        open_(options.producers * kPieces) {}

  void Run() {
    std::vector<std::thread> executors, producers;
    for (uint32_t i = 0; i < options_.executors; ++i) {
      executors.emplace_back([this] {
        ExecuteBatches(
            &ring_, &runners_, &ready_, [this](int, const BatchRing::Claimed& c) { RunBatch(c); },
            [this] { return stop_.load(); });
      });
    }
    for (uint32_t i = 0; i < options_.producers; ++i) {
      producers.emplace_back([this, i] { Produce(i); });
    }
    for (std::thread& thread : producers) thread.join();
    stop_.store(true);
    ready_.NotifyAll();
    for (std::thread& thread : executors) thread.join();
    EXPECT_EQ(open_.load(), 0u);
    EXPECT_EQ(wrong_.load(), 0u);
    EXPECT_FALSE(ring_.HasWork());
    EXPECT_GT(done_rows_.load(), 0u);
    EXPECT_EQ(done_rows_.load() + skipped_rows_.load(), submitted_rows_.load());
  }

 private:
  void Produce(uint32_t producer) {
    std::mt19937 random(producer + 1);
    auto pieces = std::make_unique<Piece[]>(kPieces);
    std::vector<Piece*> held;
    const bool leads = options_.leaders && producer % 2 == 0;
    const RunOptions run = {.mode = producer % 4 == 1 ? RunMode::kTurn : RunMode::kOpen,
                            .awaited = producer / 4 % 2 == 0,
                            .notify = !leads,
                            .rows_max = 6};
    std::optional<RunWriter> writer;
    if (options_.runs && producer % 4 != 0) writer.emplace(&ring_, run);
    for (uint32_t i = 0; i < kPieces; ++i) {
      Piece& piece = pieces[i];
      piece.stress = this;
      piece.first_id = (uint64_t{producer} << 40) + uint64_t{i} * kRowsMax;
      piece.awaited = random() % 3 == 0;
      piece.with_ticket = !piece.awaited || random() % 2 == 0;
      piece.done = piece.awaited ? nullptr : &Stress::OnDone;
      BatchCost cost;
      // Over 32 rows or 2048 units goes by compare-and-swap.
      cost.rows = 1 + static_cast<uint32_t>(random() % 8 == 0 ? random() % kRowsMax : random() % 3);
      cost.units = static_cast<uint32_t>(random() % 16 == 0 ? random() % 6000 : random() % 200);
      cost.work = static_cast<uint32_t>(random() % 6);
      piece.in_run = writer && random() % 8 != 0;
      if (piece.in_run) {
        piece.awaited = run.awaited;
        piece.with_ticket = false;
        piece.done = piece.awaited ? nullptr : &Stress::OnDone;
        cost = {.rows = 1 + cost.rows % 3};
      }
      // A turn ends before the thread waits for anything.
      if (writer && !piece.in_run) writer->EndTurn();
      Submit(&piece, cost, leads, &held, &writer);
      if (piece.awaited) held.push_back(&piece);
      if (random() % 8 == 0) piece.cancelled.store(true);
      if (writer && (leads || held.size() > 2 || random() % 4 == 0)) writer->EndTurn();
      if (leads) {
        LeadBatches(
            &ring_, &runners_, &ready_, [this](int, const BatchRing::Claimed& c) { RunBatch(c); },
            [&] { return piece.ends.load() > 0 || (piece.awaited && ring_.IsDone(piece.place)); });
      }
      if (held.size() > 2) ReadAll(&held);
    }
    if (writer) writer->EndTurn();
    ReadAll(&held);
    // The tickets live until the last callback.
    for (uint32_t open; (open = open_.load()) != 0;) open_.wait(open);
    for (uint32_t i = 0; i < kPieces; ++i) wrong_ += pieces[i].wrong + (pieces[i].ends.load() != 1);
  }

  void Submit(Piece* piece, const BatchCost& cost, bool leads, std::vector<Piece*>* held,
              std::optional<RunWriter>* writer) {
    while ((piece->in_run ? (*writer)->Take(cost.rows, &piece->place)
                          : ring_.Reserve(cost, &piece->place)) != ReserveResult::kOk) {
      ReadAll(held);
      std::this_thread::yield();
    }
    const Reservation& place = piece->place;
    uint64_t* inputs = &inputs_[size_t{place.slot} * kRowsMax + place.row];
    for (uint32_t i = 0; i < place.rows; ++i) {
      piece->wrong += inputs[i] != 0;
      inputs[i] = piece->first_id + i + 1;
    }
    submitted_rows_ += place.rows;
    owners_[size_t{place.slot} * kRowsMax + place.row] = piece;
    if (piece->in_run) return (*writer)->Publish();
    RowTicket* ticket = piece->with_ticket ? piece : nullptr;
    if (piece->awaited) {
      ring_.PublishAwaited(place, ticket, !leads);
    } else {
      ring_.Publish(place, ticket, !leads);
    }
  }

  void ReadAll(std::vector<Piece*>* held) {
    for (Piece* piece : *held) {
      const RowsOutcome outcome = ring_.Wait(piece->place, piece->with_ticket ? piece : nullptr);
      TakeResults(piece, outcome);
      ring_.Release(piece->place, piece->in_run ? piece->place.rows : 1);
      End(piece);
    }
    held->clear();
  }
  static void TakeResultsOf(const Piece& piece, const uint64_t* outputs, uint32_t* wrong) {
    for (uint32_t i = 0; i < piece.place.rows; ++i) {
      *wrong += outputs[i] != ResultOf(piece.first_id + i + 1);
    }
  }
  void TakeResults(Piece* piece, RowsOutcome outcome) {
    const Reservation& place = piece->place;
    if (outcome == RowsOutcome::kDone) {
      done_rows_ += place.rows;
      TakeResultsOf(*piece, &outputs_[size_t{place.slot} * kRowsMax + place.row], &piece->wrong);
    } else {
      skipped_rows_ += place.rows;
    }
  }
  // `piece` may be gone when the last one has ended.
  void End(Piece* piece) {
    ++piece->ends;
    if (open_.fetch_sub(1) == 1) open_.notify_all();
  }
  static void OnDone(RowTicket* ticket) {
    Piece* piece = static_cast<Piece*>(ticket);
    piece->stress->TakeResults(piece, piece->outcome);
    piece->stress->End(piece);
  }

  void RunBatch(const BatchRing::Claimed& claimed) {
    const bool fails = claimed.epoch % 16 == 5;
    const size_t first = size_t{claimed.slot} * kRowsMax;
    uint32_t next_row = 0;
    uint32_t voids = 0;
    ring_.ForEachTicket(claimed, [&](uint32_t row, uint32_t rows, RowTicket* ticket) {
      wrong_ += row < next_row;
      voids += row - next_row;
      next_row = row + rows;
      const bool skip = ticket != nullptr && ticket->cancelled.load();
      if (skip) ticket->outcome = RowsOutcome::kCancelled;
      for (uint32_t i = row; i < row + rows; ++i) {
        uint64_t& input = inputs_[first + i];
        wrong_ += input == 0;
        outputs_[first + i] = skip || fails ? 0 : ResultOf(input);
        input = 0;
      }
    });
    wrong_ += next_row != claimed.rows || voids != claimed.voids;
    // No producer writes void rows, so they must read as zero.
    for (uint32_t row = 0; row < claimed.reserved; ++row) wrong_ += inputs_[first + row] != 0;
    const RowsOutcome outcome = fails ? RowsOutcome::kFailed : RowsOutcome::kDone;
    for (uint32_t row = 0; row < claimed.reserved; ++row) {
      Piece* piece = std::exchange(owners_[first + row], nullptr);
      if (piece == nullptr || !piece->in_run || piece->awaited) continue;
      piece->outcome = outcome;
      OnDone(piece);
    }
    ring_.Complete(claimed, outcome);
  }

  const StressOptions options_;
  EventCount ready_;
  BatchRing ring_;
  RunnerSet runners_;
  std::vector<uint64_t> inputs_, outputs_;  // [batches, kRowsMax]; an input that was taken is 0
  std::vector<Piece*> owners_;              // [batches, kRowsMax]; by their first rows
  std::atomic<uint32_t> open_;
  std::atomic<uint64_t> wrong_{0};
  std::atomic<uint64_t> submitted_rows_{0}, done_rows_{0}, skipped_rows_{0};
  std::atomic<bool> stop_{false};
};

TEST(BatchRingStress, OneExecutor) { Stress({}).Run(); }

TEST(BatchRingStress, FourExecutorsOverTheEndOf32Bits) {
  Stress({.executors = 4, .runners = 4, .batches = 8, .first_epoch = (uint64_t{1} << 32) - 50})
      .Run();
}

TEST(BatchRingStress, TwoBatches) { Stress({.executors = 2, .runners = 2, .batches = 2}).Run(); }

TEST(BatchRingStress, BatchesOfFewRows) {
  Stress({.executors = 2, .runners = 2, .limits = {.rows = kRowsMax, .units = 6000, .work = 8}})
      .Run();
}

TEST(BatchRingStress, Leaders) { Stress({.runners = 1, .leaders = true}).Run(); }

TEST(BatchRingStress, LeadersAndExecutors) {
  Stress({.executors = 3, .runners = 2, .batches = 8, .leaders = true}).Run();
}

TEST(BatchRingStress, Runs) { Stress({.runs = true}).Run(); }

TEST(BatchRingStress, RunsAndTwoBatches) {
  Stress({.executors = 2, .runners = 2, .batches = 2, .runs = true}).Run();
}

TEST(BatchRingStress, RunsOfLeaders) {
  Stress({.executors = 2, .runners = 2, .batches = 8, .leaders = true, .runs = true}).Run();
}

}  // namespace
}  // namespace penstock::batch
