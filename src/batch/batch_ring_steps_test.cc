// Property test of the ring over seeded schedules: a scheduler chooses which thread takes the next
// step between any two operations on atomics (step_sync.h). Whatever it chooses, every row gets its
// own result exactly once, no slot is reused while a thread reads it, no row is written after its
// run was closed, and no thread sleeps for ever.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <optional>
#include <utility>

#include "batch/batch_ring-inl.h"
#include "batch/run_writer.h"
#include "batch/runner_set.h"
#include "batch/step_sync.h"

namespace penstock::batch {
namespace {

using Ring = BasicBatchRing<StepSync>;
using Events = BasicEventCount<StepSync>;
using Runners = BasicRunnerSet<StepSync>;
using Writer = BasicRunWriter<StepSync>;

constexpr uint32_t kRowsMax = 8;
constexpr uint32_t kBatchesMax = 8;

uint64_t ResultOf(uint64_t id) { return id * 7919 + 1; }

// The parameters that a seed gives.
struct Plan {
  explicit Plan(uint64_t seed) : random(seed) {
    producers = 1 + Below(4);
    executors = 1 + Below(3);
    runners = 1 + Below(executors);
    batches = 2u << Below(3);
    limits.rows = 1 + Below(kRowsMax);
    // Beyond 2048 units a reservation goes by compare-and-swap.
    limits.units = Below(2) == 0 ? 12 : 5000;
    limits.work = 10;
    pieces = 1 + Below(6);
    leaders = Below(2) == 0;
    runs = Below(2) == 0;
    const uint64_t starts[] = {0, Ring::kEpochs - 1, Ring::kEpochs - 3, (uint64_t{1} << 32) - 2,
                               uint64_t{Ring::kEpochs} * 9 - 2};
    first_epoch = starts[Below(5)];
  }
  uint32_t Below(uint64_t n) { return static_cast<uint32_t>(random() % n); }

  std::mt19937_64 random;
  uint32_t producers, executors, runners, batches, pieces;
  BatchCost limits;
  bool leaders;
  bool runs;  // two of three producers write runs
  uint64_t first_epoch;
};

// Rows submitted together.
struct Piece : RowTicket {
  class World* world = nullptr;
  Reservation place;
  std::vector<uint64_t> ids;
  std::vector<uint64_t> results;
  uint32_t ends = 0;  // how often `done` was called or the rows were read
  bool awaited = false;
  bool with_ticket = true;
  bool leads = false;
  bool in_run = false;
};

class World {
 public:
  explicit World(uint64_t seed)
      : seed_(seed),
        plan_(seed),
        ring_(plan_.batches, plan_.limits, &ready_, plan_.first_epoch),
        runners_(plan_.runners),
        scheduler_(seed ^ 0x9e3779b97f4a7c15),
        open_pieces_(plan_.producers * plan_.pieces) {}

  void Run() {
    for (uint32_t i = 0; i < plan_.producers; ++i) {
      scheduler_.Spawn([this, i] { Produce(i); });
    }
    for (uint32_t i = 0; i < plan_.executors; ++i) {
      scheduler_.Spawn([this] {
        ExecuteBatches(
            &ring_, &runners_, &ready_,
            [this](int runner, const Ring::Claimed& claimed) { RunBatch(runner, claimed); },
            [this] { return stop_.load(std::memory_order_seq_cst); });
      });
    }
    const StepScheduler::End end = scheduler_.Run(200'000);
    ASSERT_NE(end, StepScheduler::End::kAllAsleep) << "all asleep; seed " << seed_;
    ASSERT_EQ(end, StepScheduler::End::kDone) << "no end; seed " << seed_;
    Check(open_pieces_.load(std::memory_order_seq_cst) == 0, "pieces left");
    for (const Piece& piece : pieces_) {
      Check(piece.ends == 1, "a piece ended not once");
      for (size_t i = 0; i < piece.ids.size(); ++i) {
        const uint32_t runs = runs_[piece.ids[i]];
        if (piece.outcome == RowsOutcome::kDone) {
          Check(runs == 1, "a row ran not once");
          Check(piece.results[i] == ResultOf(piece.ids[i]), "a row has another's result");
        } else {
          Check(runs == 0, "a row ran that was cancelled or failed");
        }
      }
    }
  }

 private:
  void Check(bool good, const char* what) const { ASSERT_TRUE(good) << what << "; seed " << seed_; }

  void Produce(uint32_t producer) {
    std::deque<Piece*> held;  // awaited ones whose results this producer has not read
    const bool leads = plan_.leaders && producer % 2 == 0;
    std::optional<Writer> writer;
    const RunOptions run = RunOptionsOf(leads);
    if (plan_.runs && plan_.Below(3) != 0) writer.emplace(&ring_, run);
    for (uint32_t i = 0; i < plan_.pieces; ++i) {
      pieces_.emplace_back();
      Piece& piece = pieces_.back();
      piece.in_run = writer && plan_.Below(8) != 0;  // or a reservation of its own in between
      Fill(&piece);
      if (piece.in_run) piece.awaited = run.awaited;
      piece.leads = leads;
      if (writer && !piece.in_run) writer->EndTurn();
      Submit(&piece, &held, &writer);
      if (piece.awaited) held.push_back(&piece);
      if (plan_.Below(4) == 0) piece.cancelled.store(true);
      // A turn ends before the thread waits for anything.
      const bool reads = plan_.Below(3) == 0;
      if (writer && (leads || reads || plan_.Below(4) == 0)) writer->EndTurn();
      if (piece.leads) {
        LeadBatches(
            &ring_, &runners_, &ready_,
            [this](int runner, const Ring::Claimed& claimed) { RunBatch(runner, claimed); },
            [&piece] { return piece.ends > 0; });
      }
      // Results not read yet keep their slots, and yet no batch waits for that.
      if (reads && !held.empty() && plan_.Below(2) == 0) ring_.Wait(held.back()->place);
      if (reads) ReadOne(&held);
    }
    if (writer) writer->EndTurn();
    while (!held.empty()) ReadOne(&held);
    // Those with a callback: sleep until the last piece of all has ended.
    uint32_t open;
    while ((open = open_pieces_.load(std::memory_order_seq_cst)) != 0) {
      StepSync::Wait(&open_pieces_, open, -1);
    }
    stop_.store(true, std::memory_order_seq_cst);
    ready_.NotifyAll();
  }

  RunOptions RunOptionsOf(bool leads) {
    RunOptions options;
    options.mode = plan_.Below(3) == 0 ? RunMode::kTurn : RunMode::kOpen;
    options.awaited = plan_.Below(2) == 0;
    options.notify = !leads;
    options.rows_max = 1 + plan_.Below(plan_.limits.rows);
    options.first_rows = 1 + plan_.Below(options.rows_max);
    return options;
  }

  void Fill(Piece* piece) {
    piece->world = this;
    piece->awaited = plan_.Below(2) == 0;
    piece->with_ticket = !piece->in_run && (!piece->awaited || plan_.Below(2) == 0);
    piece->done = piece->awaited ? nullptr : &World::OnDone;
    const uint32_t rows_max = piece->in_run ? std::min(2u, plan_.limits.rows) : plan_.limits.rows;
    const uint32_t rows = 1 + plan_.Below(rows_max);
    for (uint32_t i = 0; i < rows; ++i) {
      piece->ids.push_back(runs_.size());
      runs_.push_back(0);
    }
    piece->results.resize(rows);
  }

  void Submit(Piece* piece, std::deque<Piece*>* held, std::optional<Writer>* writer) {
    BatchCost cost = {.rows = static_cast<uint32_t>(piece->ids.size())};
    if (!piece->in_run) {
      cost.units = plan_.Below(plan_.limits.units + 1);
      cost.work = plan_.Below(8);
    }
    while (true) {
      const ReserveResult result = piece->in_run ? (*writer)->Take(cost.rows, &piece->place)
                                                 : ring_.Reserve(cost, &piece->place);
      if (result == ReserveResult::kOk) break;
      Check(result == ReserveResult::kFull, "too large");
      // Back-pressure: results not read keep slots; a producer that holds some reads them.
      if (!held->empty()) {
        ReadOne(held);
      } else {
        StepScheduler::current()->Yield();
      }
    }
    const Reservation& place = piece->place;
    Check(place.row + place.rows <= plan_.limits.rows, "rows over the limit");
    Check(place.unit + cost.units <= plan_.limits.units, "units over the limit");
    for (uint32_t i = 0; i < place.rows; ++i) {
      uint64_t& input = inputs_[place.slot][place.row + i];
      Check(input == 0, "a slot was reused before its inputs were taken");
      input = piece->ids[i] + 1;
      StepSync::Step();
    }
    owners_[place.slot][place.row] = piece;
    if (piece->in_run) return (*writer)->Publish();
    RowTicket* ticket = piece->with_ticket ? piece : nullptr;
    // Leaders wake no thread: they look for a runner next.
    const bool notify = !piece->leads;
    if (piece->awaited) {
      ring_.PublishAwaited(place, ticket, notify);
    } else {
      ring_.Publish(place, ticket, notify);
    }
  }

  void ReadOne(std::deque<Piece*>* held) {
    if (held->empty()) return;
    Piece* piece = held->front();
    held->pop_front();
    const RowsOutcome outcome = ring_.Wait(piece->place, piece->with_ticket ? piece : nullptr);
    piece->outcome = outcome;
    Check(ring_.IsDone(piece->place), "not done after Wait");
    TakeResults(piece);
    ring_.Release(piece->place, piece->in_run ? piece->place.rows : 1);
    EndPiece(piece);
  }

  void TakeResults(Piece* piece) {
    const Reservation& place = piece->place;
    for (uint32_t i = 0; i < place.rows; ++i) {
      piece->results[i] = outputs_[place.slot][place.row + i];
      StepSync::Step();
    }
  }
  void EndPiece(Piece* piece) {
    ++piece->ends;
    if (open_pieces_.fetch_sub(1, std::memory_order_seq_cst) == 1) {
      StepSync::Wake(&open_pieces_, INT32_MAX);
    }
  }
  static void OnDone(RowTicket* ticket) {
    Piece* piece = static_cast<Piece*>(ticket);
    piece->world->TakeResults(piece);
    piece->world->EndPiece(piece);
  }

  void RunBatch(int runner, const Ring::Claimed& claimed) {
    Check(!busy_[runner], "two threads with one runner");
    busy_[runner] = true;
    const bool fails = plan_.Below(8) == 0;
    std::vector<uint32_t> rows_to_run;
    uint32_t next_row = 0;
    uint32_t voids = 0;
    ring_.ForEachTicket(claimed, [&](uint32_t row, uint32_t rows, RowTicket* ticket) {
      Check(row >= next_row && rows > 0, "rows overlap");
      voids += row - next_row;
      next_row = row + rows;
      const bool skip = ticket != nullptr && ticket->cancelled.load();
      if (skip) ticket->outcome = RowsOutcome::kCancelled;
      for (uint32_t i = row; i < row + rows; ++i) {
        Check(inputs_[claimed.slot][i] != 0, "a row that nobody wrote");
        if (fails || skip) {
          inputs_[claimed.slot][i] = 0;
        } else {
          rows_to_run.push_back(i);
        }
      }
    });
    Check(next_row == claimed.rows, "rows missing");
    Check(voids == claimed.voids, "voids counted wrongly");
    if (claimed.voids * 8 > claimed.rows) {
      RunMovedTogether(claimed.slot, rows_to_run);
    } else {
      RunInPlace(claimed.slot, rows_to_run);
    }
    CheckUnwritten(claimed);
    EndRunPieces(claimed, fails ? RowsOutcome::kFailed : RowsOutcome::kDone);
    busy_[runner] = false;
    ring_.Complete(claimed, fails ? RowsOutcome::kFailed : RowsOutcome::kDone);
  }

  void RunRow(uint32_t slot, uint32_t row) {
    const uint64_t id = std::exchange(inputs_[slot][row], 0) - 1;
    ++runs_[id];
    outputs_[slot][row] = ResultOf(id);
    StepSync::Step();
  }
  void RunInPlace(uint32_t slot, const std::vector<uint32_t>& rows) {
    for (const uint32_t row : rows) RunRow(slot, row);
  }
  // Into voids as well: all rows are the executor's.
  void RunMovedTogether(uint32_t slot, const std::vector<uint32_t>& rows) {
    for (uint32_t i = 0; i < rows.size(); ++i) {
      inputs_[slot][i] = std::exchange(inputs_[slot][rows[i]], 0);
      StepSync::Step();
    }
    for (uint32_t i = 0; i < rows.size(); ++i) RunRow(slot, i);
    for (auto i = static_cast<uint32_t>(rows.size()); i-- > 0;) {
      outputs_[slot][rows[i]] = outputs_[slot][i];
    }
  }

  // No producer has written a row after it was taken for the run, voids included.
  void CheckUnwritten(const Ring::Claimed& claimed) {
    for (uint32_t row = 0; row < claimed.reserved; ++row) {
      Check(inputs_[claimed.slot][row] == 0, "a row was written while the batch ran");
      StepSync::Step();
    }
  }

  // Rows of runs have no tickets: their callbacks come from an array of the caller's.
  void EndRunPieces(const Ring::Claimed& claimed, RowsOutcome outcome) {
    for (uint32_t row = 0; row < claimed.reserved; ++row) {
      Piece* piece = std::exchange(owners_[claimed.slot][row], nullptr);
      if (piece == nullptr || !piece->in_run || piece->awaited) continue;
      piece->outcome = outcome;
      OnDone(piece);
    }
  }

  const uint64_t seed_;
  Plan plan_;
  Events ready_;
  Ring ring_;
  Runners runners_;
  StepScheduler scheduler_;
  StepSync::Atomic<uint32_t> open_pieces_;
  StepSync::Atomic<bool> stop_{false};
  std::deque<Piece> pieces_;
  std::vector<uint32_t> runs_;  // by id: how often the model saw the row
  std::array<bool, 4> busy_{};
  std::array<std::array<uint64_t, kRowsMax>, kBatchesMax> inputs_{}, outputs_{};
  std::array<std::array<Piece*, kRowsMax>, kBatchesMax> owners_{};  // by their first rows
};

TEST(BatchRingSteps, EveryRowOnceOnEverySchedule) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "fibers of one thread: nothing for the thread sanitizer";
#endif
  for (uint64_t seed = 1; seed <= 20'000; ++seed) {
    World world(seed);
    world.Run();
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace penstock::batch
