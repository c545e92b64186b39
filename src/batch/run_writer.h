// RunWriter: reserves rows of a BatchRing several at a time for one thread, which then takes them
// one by one in its own cache.
//
// A reservation of its own for every row moves the ring's word, a line of stamps and, where rows
// are small, a line of rows between the cores. A run is a reservation of R rows; the rows taken
// from it cost none of that. Those that are not taken before the batch runs are void: they hold
// what earlier batches left there (BatchRing::Claimed::voids). For rows of fixed shape only, since
// a run has no units. Tickets, where results go by callback, are an array of the caller's, [slot]
// [row], written before Publish and read by the executor.
//
// Two modes
//   kTurn   The rows of a run are the writer's until EndTurn: the batch waits for it. For a thread
//           that fills what it read in one turn of its loop and never waits before EndTurn. One
//           store publishes the run.
//   kOpen   The batch waits only for a row between Take and Publish. An executor closes the run
//           where it stands, whenever it claims the batch; the writer finds that out at its next
//           Take. The writer may stop for good after any Publish.
//
// The first two stamps of an open run
//
//    63     48 47     17 16      4   3      2        1         0            63      1 0
//   |  rows   | writer  |  taken  |closed|run = 1|awaited|published|       |  count  |0|
//
//   take      CAS of the head: taken + rows. Only the writer raises `taken`.
//   publish   count = taken, once the rows are written.
//   close     fetch_or of `closed`, by the executor that claimed the batch; it takes `taken` from
//             the value before, and waits until count == taken.
//
// Why a writer never writes a row that is being read or has a new owner: all changes of the head
// are read-modify-writes of one variable, so they have one order. A take before the close is seen
// by it, and the executor waits for its count. A take after it fails, and nothing was written. Once
// the batch is done the place is cleared and may hold any other stamp or count. None equals the
// head the writer expects: other stamps of producers have the run bit 0; counts have the published
// bit 0; heads of other runs have another writer's number, or are this writer's own and then the
// run is the one it has, for it keeps its last run only. So neither reused slots nor epochs that
// wrap can confuse a writer that stood still, however long. A plain count that the writer raises by
// a store, and the executor reads after it has set `closed` elsewhere, would not do: each can miss
// the other's store.
//
// Memory order
//   head, first  release store: the executor that loads it with acquire sees the rows of the first
//                take, and the count that was stored (relaxed) before it. The later CASes are
//                read-modify-writes, so they belong to its release sequence.
//   take         relaxed. Which comes first, take or close, is decided by the order of one
//                variable. The writer's access to the rows needs nothing from it: it saw all former
//                users of the slot when it reserved (batch_ring.h), and later users come after the
//                executor, which waits for the count.
//   close        relaxed, for the same reason: rows are read only after the count.
//   count        release store after the rows are written, acquire load by the executor.
//   cleared      relaxed stores before the slot is freed, as other stamps are.
//   waking       only the first Publish of a run notifies. If a take succeeds, the run is
//                not closed, so the executor that the first Publish notified has yet to run it.
//
// R begins with 1, which is an ordinary reservation. It doubles when a run was used up and the
// writer's run before it lay in the same batch, so a lone request reserves no more than it needs;
// it falls to what was taken when a run was cut. At most 32 and a quarter of a batch (2 producers
// on 2 cores, rows/s against at most 16 and 1/16: 4 B +15 %, 128 B +11 %, 4 KiB, of which a batch
// has 32, +30 %). Voids are at most (R - 1) rows a writer and batch, for one batch: a writer that
// leaves voids has small runs next.
//
// Measured: docs/BENCHMARKS.md, `way=run`. Checked by: tests/spin/run_writer.pml,
// batch_ring_steps_test.cc, batch_ring_stress_test.cc.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "base/status.h"
#include "batch/batch_ring.h"

namespace penstock::batch {

enum class RunMode : uint8_t { kTurn, kOpen };

struct RunOptions {
  RunMode mode = RunMode::kOpen;
  // The rows' results are read in place: each row taken must be waited for and counts in Release.
  bool awaited = false;
  bool notify = true;       // as BatchRing::Publish
  uint32_t first_rows = 1;  // of the first run
  uint32_t rows_max = 0;    // of a run; 0: 32, or a quarter of a batch if that is less
};

// For one thread. The ring outlives it.
template <typename Sync>
class BasicRunWriter {
 public:
  using Ring = BasicBatchRing<Sync>;

  explicit BasicRunWriter(Ring* ring, const RunOptions& options = {})
      : ring_(ring),
        mode_(options.mode),
        notify_(options.notify),
        flags_((ring->run_writers_.fetch_add(1, std::memory_order_relaxed) % Ring::kRunWriters)
                   << Ring::kRunWriterShift |
               Ring::kStampRun | Ring::kStampPublished |
               (options.awaited ? Ring::kStampAwaited : 0)),
        rows_max_(options.rows_max != 0 ? std::min(options.rows_max, ring->limits().rows)
                                        : std::clamp(ring->limits().rows / 4, 1u, 32u)),
        next_rows_(std::min(options.first_rows, rows_max_)) {
    PENSTOCK_CHECK(next_rows_ >= 1);
  }
  ~BasicRunWriter() { PENSTOCK_CHECK(mode_ == RunMode::kOpen || run_.rows == 0); }
  BasicRunWriter(const BasicRunWriter&) = delete;
  BasicRunWriter& operator=(const BasicRunWriter&) = delete;

  // Takes `rows` rows that lie side by side. On kOk the caller writes them and calls Publish.
  ReserveResult Take(uint32_t rows, Reservation* place) {
    if (rows > run_.rows - taken_ || !TakeMore(rows)) {
      const ReserveResult opened = OpenRun(rows);
      if (opened != ReserveResult::kOk) return opened;
    }
    *place = {.epoch = run_.epoch, .slot = run_.slot, .row = run_.row + taken_, .rows = rows};
    taken_ += rows;
    return ReserveResult::kOk;
  }
  // The rows of the last Take are written.
  void Publish() {
    if (mode_ == RunMode::kTurn) {
      if (taken_ == run_.rows) EndTurn();
    } else if (!is_new_) {
      StoreCount(std::memory_order_release);
    } else {
      is_new_ = false;
      if (taken_ < run_.rows) StoreCount(std::memory_order_relaxed);
      StoreHead(taken_ < run_.rows ? 0 : Ring::kRunClosed);
    }
  }
  // kTurn: publishes the run. To be called before the thread waits for anything, and at the end.
  void EndTurn() {
    if (mode_ != RunMode::kTurn || run_.rows == 0) return;
    StoreHead(Ring::kRunClosed);
    DropRun();
  }

 private:
  using Stamps = typename Sync::template Atomic<uint64_t>;

  uint64_t HeadWith(uint32_t taken) const {
    return head_ | uint64_t{taken} << Ring::kRunTakenShift;
  }
  void StoreHead(uint64_t closed) {
    stamps_->store(HeadWith(taken_) | closed, std::memory_order_release);
    if (notify_) ring_->work_ready_->NotifyOne();
  }
  void StoreCount(std::memory_order order) {
    stamps_[1].store(uint64_t{taken_} << Ring::kRunCountShift, order);
  }
  bool TakeMore(uint32_t rows) {
    if (mode_ == RunMode::kTurn) return true;
    uint64_t head = HeadWith(taken_);
    return stamps_->compare_exchange_strong(head, HeadWith(taken_ + rows),
                                            std::memory_order_relaxed);
  }
  // The run is used up, cut, or too short for the next rows.
  void DropRun() {
    if (taken_ < run_.rows) {
      next_rows_ = std::clamp(taken_, 1u, rows_max_);
    } else if (same_batch_) {
      next_rows_ = std::min(2 * next_rows_, rows_max_);
    }
    same_batch_ = false;
    run_.rows = 0;
    taken_ = 0;
  }
  [[gnu::noinline]] ReserveResult OpenRun(uint32_t rows) {
    if (mode_ == RunMode::kTurn) {
      EndTurn();
    } else if (run_.rows != 0) {
      DropRun();
    }
    Reservation run;
    const ReserveResult reserved = ring_->Reserve({.rows = std::max(rows, next_rows_)}, &run);
    if (reserved != ReserveResult::kOk) return reserved;
    same_batch_ = run.epoch == run_.epoch;
    run_ = run;
    stamps_ = ring_->StampsOf(run.slot) + run.row;
    head_ = uint64_t{run.rows} << Ring::kStampRowsShift | flags_;
    is_new_ = true;
    return ReserveResult::kOk;
  }

  Ring* const ring_;
  const RunMode mode_;
  const bool notify_;
  const uint64_t flags_;  // of every head of this writer
  const uint32_t rows_max_;
  uint32_t next_rows_;                    // of the next run
  Reservation run_{.epoch = UINT32_MAX};  // rows is 0 while no run is open
  Stamps* stamps_ = nullptr;              // of it
  uint64_t head_ = 0;                     // with nothing taken
  uint32_t taken_ = 0;                    // rows of it
  bool is_new_ = false;                   // its head is to be stored
  bool same_batch_ = false;               // it lies in that of the run before
};

using RunWriter = BasicRunWriter<SystemSync>;

}  // namespace penstock::batch
