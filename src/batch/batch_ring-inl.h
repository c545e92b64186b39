// The parts of BatchRing that run once a batch. Included by batch_ring.cc, which instantiates the
// ring, and by tests that drive it step by step.
#pragma once

#include "base/status.h"
#include "batch/batch_ring.h"

namespace penstock::batch {

template <typename Sync>
BasicBatchRing<Sync>::BasicBatchRing(size_t batches, const BatchCost& limits, Events* work_ready,
                                     uint64_t first_epoch)
    : limits_(limits),
      batches_(batches),
      bias_(Pack({kLimitMax.rows - limits.rows, kLimitMax.units - limits.units,
                  kLimitMax.work - limits.work})),
      stamp_stride_((limits.rows + 15) / 16 * 16),
      work_ready_(work_ready),
      slots_(std::make_unique<Slot[]>(batches)),
      stamps_(std::make_unique<Atomic<uint64_t>[]>(batches * stamp_stride_)),
      word_(OpenWord(first_epoch)),
      head_(first_epoch) {
  PENSTOCK_CHECK(batches >= 2 && batches <= kBatchesMax && (batches & (batches - 1)) == 0);
  PENSTOCK_CHECK(limits.rows >= 1 && limits.rows <= kLimitMax.rows);
  PENSTOCK_CHECK(limits.units <= kLimitMax.units && limits.work <= kLimitMax.work);
  for (uint64_t e = first_epoch; e < first_epoch + batches; ++e) {
    slots_[e & (batches - 1)].open_epoch.store(e, std::memory_order_relaxed);
  }
}

template <typename Sync>
bool BasicBatchRing<Sync>::IsFree(uint32_t epoch) const {
  // The slot holds this epoch, or one that is `batches_` older: they differ modulo kEpochs.
  const Slot& slot = slots_[epoch & (batches_ - 1)];
  return (slot.open_epoch.load(std::memory_order_acquire) & kEpochMask) == epoch;
}

// `word` fits and is the last of its epoch: says where the batch ends.
template <typename Sync>
void BasicBatchRing<Sync>::Seal(uint64_t word) {
  slots_[EpochOf(word) & (batches_ - 1)].sealed.store(
      kSealed | uint64_t{RowsOf(word)} << 32 | UnitsOf(word), std::memory_order_release);
}

// Moves the word from `word` to the next epoch. False: its slot is not free. True: it was moved;
// look again.
template <typename Sync>
bool BasicBatchRing<Sync>::OpenNext(uint64_t word) {
  const auto next = static_cast<uint32_t>((EpochOf(word) + 1) & kEpochMask);
  if (!IsFree(next)) {
    // The word may be stale; a full ring must be full now.
    return word_.load(std::memory_order_acquire) != word;
  }
  const bool moved = word_.compare_exchange_strong(word, OpenWord(next), std::memory_order_acq_rel);
  // Over the limits, the first producer that did not fit knows the end, and tells it.
  if (moved && Fits(word)) Seal(word);
  return true;
}

// Ends the epoch of `word`, which fits, though the next slot is not free; or the word has changed.
template <typename Sync>
void BasicBatchRing<Sync>::Close(uint64_t word) {
  // As if one row too many had been added, and no more: threads that looked before add to it.
  const uint64_t closed =
      OpenWord(EpochOf(word)) | Pack({.rows = limits_.rows + 1, .units = 0, .work = 0});
  if (word_.compare_exchange_strong(word, closed, std::memory_order_acq_rel)) Seal(word);
}

template <typename Sync>
RowsOutcome BasicBatchRing<Sync>::Wait(const Reservation& reservation, const RowTicket* ticket) {
  Slot& slot = slots_[reservation.slot];
  const uint32_t wanted = kDone | reservation.epoch;
  for (int i = 0; i < Sync::kWaitSpins; ++i) {
    if (slot.done.load(std::memory_order_acquire) == wanted) break;
    Sync::Pause();
  }
  uint32_t seen = slot.done.load(std::memory_order_acquire);
  if (seen != wanted) {
    // Counted in before `done` is read again, as `done` is written before the count is read.
    slot.sleepers.fetch_add(1, std::memory_order_seq_cst);
    while ((seen = slot.done.load(std::memory_order_seq_cst)) != wanted) {
      Sync::Wait(&slot.done, seen, -1);
    }
    slot.sleepers.fetch_sub(1, std::memory_order_relaxed);
  }
  return ticket != nullptr ? ticket->outcome : slot.outcome;
}

template <typename Sync>
void BasicBatchRing<Sync>::Release(const Reservation& reservation, uint32_t count) {
  Slot& slot = slots_[reservation.slot];
  if (slot.readers.fetch_sub(count, std::memory_order_acq_rel) == count) Free(reservation.slot);
}

template <typename Sync>
void BasicBatchRing<Sync>::Free(uint32_t index) {
  Slot& slot = slots_[index];
  // Only the thread that frees a slot writes it.
  const uint64_t next = slot.open_epoch.load(std::memory_order_relaxed) + batches_;
  slot.open_epoch.store(next, std::memory_order_release);
}

template <typename Sync>
bool BasicBatchRing<Sync>::HasWork() const {
  const uint64_t word = word_.load(std::memory_order_seq_cst);
  const int32_t ahead = EpochsFrom(head_.load(std::memory_order_seq_cst), word);
  return ahead > 0 || (ahead == 0 && RowsOf(word) > 0);
}

template <typename Sync>
bool BasicBatchRing<Sync>::Claim(Claimed* claimed) {
  uint64_t epoch;
  while (true) {
    // First head, then word: if head is still the same at the CAS, the word is not older.
    epoch = head_.load(std::memory_order_acquire);
    const uint64_t word = word_.load(std::memory_order_acquire);
    const int32_t ahead = EpochsFrom(epoch, word);
    if (ahead < 0) return false;
    if (ahead > 0 || !Fits(word)) {
      if (head_.compare_exchange_weak(epoch, epoch + 1, std::memory_order_acq_rel)) break;
    } else if (RowsOf(word) == 0) {
      return false;
    } else if (!OpenNext(word)) {
      Close(word);
    }
  }
  // Others were not woken while this thread was (event_count.h).
  if (work_ready_->HasWaiters() && HasWork()) work_ready_->NotifyOne();
  claimed->epoch = epoch;
  claimed->slot = static_cast<uint32_t>(epoch & (batches_ - 1));
  Slot& slot = slots_[claimed->slot];
  uint64_t sealed;
  for (typename Sync::Spin wait; (sealed = slot.sealed.load(std::memory_order_acquire)) == 0;)
    wait.Once();
  claimed->reserved = static_cast<uint32_t>(sealed >> 32 & kRowsMask);
  claimed->units = static_cast<uint32_t>(sealed);
  WaitForStamps(claimed);
  return true;
}

template <typename Sync>
void BasicBatchRing<Sync>::WaitForStamps(Claimed* claimed) {
  Atomic<uint64_t>* stamps = StampsOf(claimed->slot);
  // They lie in the producers' caches, and each says where the next one is: fetched together.
  for (uint32_t row = 0; row < claimed->reserved; row += 64 / sizeof(uint64_t)) {
    __builtin_prefetch(stamps + row, /*rw=*/1);
  }
  claimed->rows = 0;
  claimed->voids = 0;
  claimed->tickets = 0;
  claimed->awaited = 0;
  claimed->with_objects = false;
  for (uint32_t row = 0; row < claimed->reserved;) {
    uint64_t stamp;
    for (typename Sync::Spin wait; (stamp = stamps[row].load(std::memory_order_acquire)) == 0;)
      wait.Once();
    uint32_t tickets = 1;
    uint32_t written = StampRows(stamp);
    if ((stamp & kStampRun) != 0) {
      stamp = CloseRun(stamps + row, stamp);
      tickets = written = RunTaken(stamp);
    } else {
      claimed->with_objects |= StampTicket(stamp) != nullptr;
    }
    claimed->voids += row - claimed->rows;
    claimed->rows = row + written;
    claimed->tickets += tickets;
    claimed->awaited += (stamp & kStampAwaited) != 0 ? tickets : 0;
    row += StampRows(stamp);
  }
}

// Keeps the writer of a run from taking more rows of it, and waits for those it took. Returns the
// head that stays.
template <typename Sync>
uint64_t BasicBatchRing<Sync>::CloseRun(Atomic<uint64_t>* stamps, uint64_t head) {
  if ((head & kRunClosed) != 0) return head;
  if (RunTaken(head) < StampRows(head))
    head = stamps->fetch_or(kRunClosed, std::memory_order_relaxed);
  const uint64_t count = uint64_t{RunTaken(head)} << kRunCountShift;
  for (typename Sync::Spin wait; stamps[1].load(std::memory_order_acquire) != count;) wait.Once();
  return head;
}

template <typename Sync>
void BasicBatchRing<Sync>::Complete(const Claimed& claimed, RowsOutcome outcome) {
  Slot& slot = slots_[claimed.slot];
  Atomic<uint64_t>* stamps = StampsOf(claimed.slot);
  if (claimed.with_objects) {
    ForEachTicket(claimed, [outcome](uint32_t, uint32_t, RowTicket* ticket) {
      if (ticket == nullptr) return;
      if (ticket->outcome == RowsOutcome::kDone) ticket->outcome = outcome;
      if (ticket->done != nullptr) ticket->done(ticket);  // the ticket may be gone after it
    });
  }
  for (uint32_t row = 0; row < claimed.rows;) {
    const uint64_t stamp = stamps[row].load(std::memory_order_relaxed);
    const uint32_t rows = StampRows(stamp);
    stamps[row].store(0, std::memory_order_relaxed);
    if ((stamp & kStampRun) != 0 && rows > 1) stamps[row + 1].store(0, std::memory_order_relaxed);
    row += rows;
  }
  slot.sealed.store(0, std::memory_order_relaxed);
  const uint32_t done = kDone | static_cast<uint32_t>(claimed.epoch & kEpochMask);
  if (claimed.awaited == 0) {
    slot.done.store(done, std::memory_order_relaxed);
    return Free(claimed.slot);
  }
  slot.outcome = outcome;
  slot.readers.store(claimed.awaited, std::memory_order_relaxed);
  slot.done.store(done, std::memory_order_seq_cst);
  if (slot.sleepers.load(std::memory_order_seq_cst) != 0) Sync::Wake(&slot.done, INT32_MAX);
}

}  // namespace penstock::batch
