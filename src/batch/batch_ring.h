// BatchRing: producers fill batches together, executors take them; no lock, no thread in between.
//
// A ring of `batches` slots. One is open: producers reserve rows in it with one atomic add, write
// their input in place, and publish. A batch is sealed by the producer that does not fit any more,
// or by an executor the moment it is free; the next one opens in the same step. The contents of
// rows (token ids, a tensor, a struct) are the caller's: arrays of its own, a set for each slot,
// found by Reservation::slot. The ring only decides which thread may touch which part when.
//
// The word
//
//   63        46 45        32 31                12 11         0
//   |  epoch   |    rows     |       units        |    work    |
//
// is the only data that producers contend for. `units` are places in the slot's arrays (tokens),
// `work` is a cost that takes no place (attention). An add that ends within the limits is a
// reservation: the value before it says where. The first add that does not fit sees
// this in the value it gets back, and no other add does. So exactly one producer knows where the
// batch ends; it stores that in the slot (`sealed`). Any thread may then open the next epoch with a
// compare-and-swap.
//
// A slot's life
//
//        open(e) --> filling --> sealed --> claimed --> done --> free = open(e + batches)
//           |  reserve, publish  |            |           |  awaited results are read
//           |                    |            |           `- last reader, or the executor if none
//           |                    |            `- one executor: waits for every stamp, runs
//           |                    `- first producer that does not fit, or a free executor
//           `- any thread moves the word to epoch e; only if the slot is free
//
// An executor seals by moving the word to the next epoch. While the next slot is taken (its results
// are still being read) it closes the word instead: it swaps in a count of rows over the limit.
// Then `head` is one ahead of the word's epoch until a producer can open the next.
//
// Memory order
//   word        reserve is an acq_rel add, opening an acq_rel CAS. A producer that reserves in
//               epoch e reads a word that descends from the CAS that opened e, whose thread had
//               read `open_epoch` == e with acquire: so it sees all that earlier users of the slot
//               did.
//   stamp       publish is a release store, the executor's read an acquire load: it sees the input.
//   sealed      release store, acquire load: the counts.
//   head        acq_rel CAS: of several executors one gets the batch.
//   done        release store after the results are written, acquire load by waiters. It is written
//               for every batch, awaited or not: a value left from 2^18 epochs ago would tell a
//               waiter that its rows are done.
//   readers     acq_rel decrement: the last reader frees the slot after all others have read.
//   open_epoch  release store on freeing, acquire load on opening.
//   sleeping    reserve is seq_cst as well, and so are the loads of EventCount: an executor that
//               goes to sleep has counted itself in before it reads the word, a producer has
//               changed the word before it reads the count; one of them sees the other.
//   runs        run_writer.h.
//
// Blocking: Reserve, Publish, Claim never wait for a lock. An executor that claimed a batch waits
// for producers that reserved in it and have not published yet (as every ring that is written in
// place must); producers never wait.
//
// Wake-ups: Publish notifies `work_ready` once its rows are readable. Claim wakes the next executor
// if there is more to do, because while one is being woken others are not (event_count.h). Where
// rings share an EventCount, a thread that claims from one of them must look at the others.
//
// Limits: 2^13 - 1 rows, 2^19 - 1 units and 2^11 - 1 work a batch: half of what the word's fields
// hold; batches <= kBatchesMax. A field must not overflow when many producers at once add costs
// that do not fit: a producer looks before it adds, so each thread adds at most once too much;
// costs over kSmall, 1/256 of the other half, go by compare-and-swap instead. So up to 256 threads
// may reserve at once. That half also makes the comparison with all three limits one addition: a
// bias lifts a field that is over its limit into its top bit, and none beyond it. Epochs wrap at
// 2^18: a thread would have to stand still between two instructions for exactly that many batches,
// and find the same counts, to be confused.
//
// Have two batches more than executors, and more where results are awaited: a slot is taken until
// its last reader released it, and while the next slot is taken nothing can be reserved.
//
// Checked by: batch_ring_steps_test.cc (seeded schedules of single steps),
// batch_ring_stress_test.cc (threads, thread sanitizer), tests/spin/batch_ring.pml and
// run_writer.pml (all schedules of small models).
//
// Source of the stamps: the LMAX Disruptor's availability buffer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "threads/event_count.h"

namespace penstock::batch {

// The cost of rows in a batch; also the limits of a batch.
struct BatchCost {
  uint32_t rows = 1;
  uint32_t units = 0;
  uint32_t work = 0;
};

enum class RowsOutcome : uint8_t { kDone, kCancelled, kFailed };

// An object that a producer may attach to its rows. It must live until `done` was called or, for
// awaited rows, until Release.
struct alignas(8) RowTicket {
  // Called by the executor once the rows are finished, with any outcome; null: no call. It must not
  // throw and not wait for this ring.
  void (*done)(RowTicket* ticket) = nullptr;
  // Set by any thread at any time before the end: rows not begun are skipped.
  std::atomic<bool> cancelled{false};
  // Written by the executor before `done` or the end of Wait.
  RowsOutcome outcome = RowsOutcome::kDone;
};

// Rows that belong to their producer until it publishes them. Plain data.
struct Reservation {
  uint32_t epoch = 0;  // modulo 2^18
  uint32_t slot = 0;   // which of the ring's `batches`
  uint32_t row = 0;    // first row in it
  uint32_t rows = 0;
  uint32_t unit = 0;  // first unit in it
};

enum class ReserveResult {
  kOk,
  kFull,      // every batch is taken: come back later
  kTooLarge,  // over the limits of one batch
};

template <typename Sync>
class BasicBatchRing {
 public:
  using Events = BasicEventCount<Sync>;

  static constexpr size_t kBatchesMax = 4096;
  static constexpr BatchCost kLimitMax = {(1 << 13) - 1, (1 << 19) - 1, (1 << 11) - 1};
  static constexpr uint32_t kEpochs = 1 << 18;

  // `batches`: a power of two, at least 2. `limits`: of one batch, within kLimitMax, rows >= 1.
  // `work_ready` is notified when rows were reserved while an executor sleeps; several rings may
  // share it; it must outlive the ring. `first_epoch`: where the epochs begin, for tests.
  BasicBatchRing(size_t batches, const BatchCost& limits, Events* work_ready,
                 uint64_t first_epoch = 0);
  BasicBatchRing(const BasicBatchRing&) = delete;
  BasicBatchRing& operator=(const BasicBatchRing&) = delete;

  const BatchCost& limits() const { return limits_; }
  size_t batches() const { return batches_; }

  // --- Producers: any thread ------------------------------------------------------------------

  // Takes rows that lie side by side in one batch. On kOk the caller must Publish soon: the whole
  // batch waits for it.
  ReserveResult Reserve(const BatchCost& cost, Reservation* reservation);
  // The rows' input is written. `ticket` (may be null) is told of the end. `notify` = false: no
  // executor is woken; for a caller that goes on to run batches itself, or sees that another thread
  // does.
  void Publish(const Reservation& reservation, RowTicket* ticket, bool notify = true) {
    Stamp(reservation, ticket, kStampPublished, notify);
  }
  // The same, and the caller will Wait for the results and then Release them.
  void PublishAwaited(const Reservation& reservation, RowTicket* ticket = nullptr,
                      bool notify = true) {
    Stamp(reservation, ticket, kStampPublished | kStampAwaited, notify);
  }
  // Spins a while, then sleeps until the batch is done. Then the slot's results may be read in
  // place. kCancelled or kFailed: there are none.
  RowsOutcome Wait(const Reservation& reservation, const RowTicket* ticket = nullptr);
  bool IsDone(const Reservation& reservation) const {
    return slots_[reservation.slot].done.load(std::memory_order_acquire) ==
           (kDone | reservation.epoch);
  }
  // The results were read; the slot may be used again when every reader is through. A reader of
  // several reservations of one epoch may release them together: `count`. Each row that a
  // RunWriter gave counts.
  void Release(const Reservation& reservation, uint32_t count = 1);

  // --- Executors: any thread ------------------------------------------------------------------

  // A batch that belongs to one executor.
  struct Claimed {
    uint64_t epoch = 0;
    uint32_t slot = 0;
    // Rows of the batch, up to the last row that was written.
    uint32_t rows = 0;
    // Unwritten rows among these: the unused rows of runs, which hold data of earlier batches. The
    // model may compute a few of them; above 1/8 it pays to compact the written rows.
    uint32_t voids = 0;
    uint32_t reserved = 0;  // rows, with voids at the end
    uint32_t units = 0;
    uint32_t tickets = 0;       // reservations in it; of runs, rows
    uint32_t awaited = 0;       // of them, awaited ones
    bool with_objects = false;  // some have a RowTicket
  };

  // Takes the oldest sealed batch, or seals the open one if it has rows. False: there is nothing.
  // Waits for producers that are still writing.
  bool Claim(Claimed* claimed);
  // Calls visit(row, rows, RowTicket* or null) for each reservation, in order of rows; for a run,
  // its rows that were written, without a ticket. Voids are left out.
  template <typename Visit>
  void ForEachTicket(const Claimed& claimed, Visit visit) const {
    const Atomic<uint64_t>* stamps = StampsOf(claimed.slot);
    for (uint32_t row = 0; row < claimed.rows;) {
      const uint64_t stamp = stamps[row].load(std::memory_order_relaxed);
      const bool is_run = (stamp & kStampRun) != 0;
      visit(row, is_run ? RunTaken(stamp) : StampRows(stamp),
            is_run ? nullptr : StampTicket(stamp));
      row += StampRows(stamp);
    }
  }
  // The results are written, or the batch failed as a whole. Tickets that the executor set to
  // kCancelled or kFailed keep their outcome. Calls their `done`, wakes waiters (one call, if any
  // sleeps), and frees the slot if no reader is left.
  void Complete(const Claimed& claimed, RowsOutcome outcome = RowsOutcome::kDone);

  // Whether Claim would find something: for use between PrepareWait and Wait.
  bool HasWork() const;
  // Calls visit(slot, row) for the first row of each reservation that is published in a batch
  // that was not claimed yet, runs left out. Producers may go on meanwhile; the caller keeps others
  // from Claim.
  template <typename Visit>
  void ForEachWaiting(Visit visit) const {
    // Acquire: an epoch that is open was cleared of its former stamps before.
    const uint64_t word = word_.load(std::memory_order_acquire);
    const uint64_t head = head_.load(std::memory_order_acquire);
    const int32_t last = EpochsFrom(head, word);
    for (int32_t i = 0; i <= last; ++i) {
      const auto slot = static_cast<uint32_t>((head + static_cast<uint32_t>(i)) & (batches_ - 1));
      const Atomic<uint64_t>* stamps = StampsOf(slot);
      for (uint32_t row = 0; row < limits_.rows; ++row) {
        const uint64_t stamp = stamps[row].load(std::memory_order_acquire);
        if ((stamp & (kStampPublished | kStampRun)) == kStampPublished) visit(slot, row);
      }
    }
  }

 private:
  template <typename>
  friend class BasicRunWriter;
  template <typename T>
  using Atomic = typename Sync::template Atomic<T>;
  static constexpr size_t kLine = 128;  // two cache lines: the processor fetches them in pairs

  // The word: epoch 18 | rows 14 | units 20 | work 12.
  static constexpr int kUnitsShift = 12;
  static constexpr int kRowsShift = 32;
  static constexpr int kEpochShift = 46;
  static constexpr uint64_t kWorkMask = (1 << 12) - 1;
  static constexpr uint64_t kUnitsMask = (1 << 20) - 1;
  static constexpr uint64_t kRowsMask = (1 << 14) - 1;
  static constexpr uint64_t kEpochMask = kEpochs - 1;
  // The top bit of each field below the epoch.
  static constexpr uint64_t kOver = uint64_t{1} << 45 | uint64_t{1} << 31 | uint64_t{1} << 11;
  // Costs up to this are added by fetch_add.
  static constexpr BatchCost kSmall = {(1 << 13) / 256, (1 << 19) / 256, (1 << 11) / 256};

  // A stamp: rows 16 | ticket 45 | run = 0 | awaited | published.
  // The first stamp of a run: rows 16 | writer 31 | taken 13 | closed | run = 1 | awaited |
  // published; the second, until it is closed: count of rows published 63 | published = 0.
  static constexpr int kStampRowsShift = 48;
  static constexpr uint64_t kStampPublished = 1;
  static constexpr uint64_t kStampAwaited = 2;
  static constexpr uint64_t kStampRun = 4;
  static constexpr uint64_t kRunClosed = 8;
  static constexpr int kRunTakenShift = 4;
  static constexpr uint64_t kRunTakenMask = (1 << 13) - 1;
  static constexpr int kRunWriterShift = 17;
  static constexpr uint64_t kRunWriters = uint64_t{1} << 31;
  static constexpr int kRunCountShift = 1;
  static constexpr uint64_t kSealed = uint64_t{1} << 63;
  static constexpr uint32_t kDone = uint32_t{1} << 31;

  struct alignas(kLine) Slot {
    Atomic<uint64_t> open_epoch{0};           // the epoch this slot may be opened for
    Atomic<uint64_t> sealed{0};               // kSealed | rows | units, or 0
    alignas(kLine) Atomic<uint32_t> done{0};  // kDone | epoch; the futex word
    Atomic<uint32_t> sleepers{0};
    Atomic<uint32_t> readers{0};
    RowsOutcome outcome = RowsOutcome::kDone;
  };

  static uint64_t Pack(const BatchCost& cost) {
    return uint64_t{cost.rows} << kRowsShift | uint64_t{cost.units} << kUnitsShift | cost.work;
  }
  static uint32_t EpochOf(uint64_t word) { return static_cast<uint32_t>(word >> kEpochShift); }
  static uint32_t RowsOf(uint64_t word) {
    return static_cast<uint32_t>(word >> kRowsShift & kRowsMask);
  }
  static uint32_t UnitsOf(uint64_t word) {
    return static_cast<uint32_t>(word >> kUnitsShift & kUnitsMask);
  }
  static uint64_t OpenWord(uint64_t epoch) { return (epoch & kEpochMask) << kEpochShift; }
  static uint32_t StampRows(uint64_t stamp) {
    return static_cast<uint32_t>(stamp >> kStampRowsShift);
  }
  static RowTicket* StampTicket(uint64_t stamp) {
    return reinterpret_cast<RowTicket*>(stamp & 0x0000'ffff'ffff'fff8);
  }
  static uint32_t RunTaken(uint64_t stamp) {
    return static_cast<uint32_t>(stamp >> kRunTakenShift & kRunTakenMask);
  }
  // The word's epoch less `head`: -1 if the open batch was closed and claimed; then nothing waits.
  // A stale word may be further behind.
  static int32_t EpochsFrom(uint64_t head, uint64_t word) {
    constexpr int kUnused = 32 - 18;
    const auto ahead = EpochOf(word) - static_cast<uint32_t>(head);
    return static_cast<int32_t>(ahead << kUnused) >> kUnused;
  }
  Atomic<uint64_t>* StampsOf(uint32_t slot) const {
    return stamps_.get() + static_cast<size_t>(slot) * stamp_stride_;
  }
  void Stamp(const Reservation& reservation, RowTicket* ticket, uint64_t flags, bool notify) {
    if (ticket != nullptr) ticket->outcome = RowsOutcome::kDone;
    StampsOf(reservation.slot)[reservation.row].store(
        uint64_t{reservation.rows} << kStampRowsShift | reinterpret_cast<uint64_t>(ticket) | flags,
        std::memory_order_release);
    if (notify) work_ready_->NotifyOne();
  }
  bool Fits(uint64_t word) const { return ((word + bias_) & kOver) == 0; }
  bool IsFree(uint32_t epoch) const;
  void Seal(uint64_t word);
  bool OpenNext(uint64_t word);
  void Close(uint64_t word);
  void WaitForStamps(Claimed* claimed);
  uint64_t CloseRun(Atomic<uint64_t>* stamps, uint64_t head);
  void Free(uint32_t slot);

  const BatchCost limits_;
  const size_t batches_;
  const uint64_t bias_;  // lifts a field over its limit into kOver
  const size_t stamp_stride_;
  Events* const work_ready_;
  const std::unique_ptr<Slot[]> slots_;
  // [batches, stamp_stride]: 0, or a stamp in the first row of a reservation.
  const std::unique_ptr<Atomic<uint64_t>[]> stamps_;
  alignas(kLine) Atomic<uint64_t> word_;
  alignas(kLine) Atomic<uint64_t> head_;  // the oldest unclaimed epoch
  Atomic<uint32_t> run_writers_{0};       // made so far
};

using BatchRing = BasicBatchRing<SystemSync>;

template <typename Sync>
ReserveResult BasicBatchRing<Sync>::Reserve(const BatchCost& cost, Reservation* reservation) {
  const bool small =
      cost.rows - 1 < kSmall.rows && cost.units <= kSmall.units && cost.work <= kSmall.work;
  if (!small && (cost.rows == 0 || cost.rows > limits_.rows || cost.units > limits_.units ||
                 cost.work > limits_.work)) {
    return ReserveResult::kTooLarge;
  }
  const uint64_t add = Pack(cost);
  if (!Fits(add)) return ReserveResult::kTooLarge;
  uint64_t word = word_.load(std::memory_order_acquire);
  while (true) {
    if (!Fits(word) || !Fits(word + add)) {
      if (!OpenNext(word)) return ReserveResult::kFull;
      word = word_.load(std::memory_order_acquire);
      continue;
    }
    if (small) {
      word = word_.fetch_add(add, std::memory_order_seq_cst);
    } else if (!word_.compare_exchange_weak(word, word + add, std::memory_order_seq_cst)) {
      continue;
    }
    if (Fits(word + add)) break;
    // Only the first add that does not fit finds a word that did before it.
    if (Fits(word)) Seal(word);
    word += add;
  }
  reservation->epoch = EpochOf(word);
  reservation->slot = static_cast<uint32_t>(reservation->epoch & (batches_ - 1));
  reservation->row = RowsOf(word);
  reservation->rows = cost.rows;
  reservation->unit = UnitsOf(word);
  return ReserveResult::kOk;
}

extern template class BasicBatchRing<SystemSync>;

}  // namespace penstock::batch
