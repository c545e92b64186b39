#include "batch/batch_ring.h"

#include <algorithm>

#include "common/status.h"

namespace penstock {
namespace {

// The word: epoch 18 | rows 14 | units 20 | work 12.
constexpr int kUnitsShift = 12;
constexpr int kRowsShift = 32;
constexpr int kEpochShift = 46;
constexpr uint64_t kWorkMask = (1 << 12) - 1;
constexpr uint64_t kUnitsMask = (1 << 20) - 1;
constexpr uint64_t kRowsMask = (1 << 14) - 1;
constexpr uint64_t kEpochMask = BatchRing::kEpochs - 1;
constexpr uint32_t kThreadsMax = 256;

constexpr uint64_t kStampPublished = 1;
constexpr uint64_t kStampAwaited = 2;
constexpr uint64_t kSealed = uint64_t{1} << 63;
constexpr uint32_t kDone = uint32_t{1} << 31;

// A wake-up costs 15 to 20 µs; to spin about as long is at most twice the best.
constexpr int kWaitSpins = 400;

uint64_t Pack(const BatchCost& cost) {
  return uint64_t{cost.rows} << kRowsShift | uint64_t{cost.units} << kUnitsShift | cost.work;
}
uint32_t EpochOf(uint64_t word) { return static_cast<uint32_t>(word >> kEpochShift); }
uint32_t RowsOf(uint64_t word) { return static_cast<uint32_t>(word >> kRowsShift & kRowsMask); }
uint32_t UnitsOf(uint64_t word) { return static_cast<uint32_t>(word >> kUnitsShift & kUnitsMask); }
uint32_t WorkOf(uint64_t word) { return static_cast<uint32_t>(word & kWorkMask); }
uint64_t OpenWord(uint64_t epoch) { return (epoch & kEpochMask) << kEpochShift; }

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

BatchRing::BatchRing(size_t batches, const BatchCost& limits, EventCount* work_ready,
                     uint64_t first_epoch)
    : limits_(limits),
      batches_(batches),
      small_rows_((kRowsMask - limits.rows) / kThreadsMax),
      small_units_((kUnitsMask - limits.units) / kThreadsMax),
      small_work_((kWorkMask - limits.work) / kThreadsMax),
      stamp_stride_((limits.rows + 15) / 16 * 16),
      work_ready_(work_ready),
      slots_(std::make_unique<Slot[]>(batches)),
      stamps_(std::make_unique<std::atomic<uint64_t>[]>(batches * stamp_stride_)),
      word_(OpenWord(first_epoch)),
      head_(first_epoch) {
  PENSTOCK_CHECK(batches >= 2 && batches <= kBatchesMax && (batches & (batches - 1)) == 0);
  PENSTOCK_CHECK(limits.rows >= 1 && limits.rows <= kLimitMax.rows);
  PENSTOCK_CHECK(limits.units <= kLimitMax.units && limits.work <= kLimitMax.work);
  for (uint64_t e = first_epoch; e < first_epoch + batches; ++e) {
    slots_[e & (batches - 1)].open_epoch.store(e, std::memory_order_relaxed);
  }
}

BatchRing::~BatchRing() = default;

bool BatchRing::Fits(uint64_t word) const {
  return RowsOf(word) <= limits_.rows && UnitsOf(word) <= limits_.units &&
         WorkOf(word) <= limits_.work;
}

bool BatchRing::IsFree(uint32_t epoch) const {
  // The slot holds this epoch, or one that is `batches_` older: they differ modulo kEpochs.
  const Slot& slot = slots_[epoch & (batches_ - 1)];
  return (slot.open_epoch.load(std::memory_order_seq_cst) & kEpochMask) == epoch;
}

// `word` fits and is the last of its epoch: says where the batch ends.
void BatchRing::Seal(uint64_t word) {
  slots_[EpochOf(word) & (batches_ - 1)].sealed.store(
      kSealed | uint64_t{RowsOf(word)} << 32 | UnitsOf(word), std::memory_order_release);
}

// Moves the word from `word` to the next epoch. False: its slot is not free. True: somebody has
// moved it; look again.
bool BatchRing::OpenNext(uint64_t word) {
  const auto next = static_cast<uint32_t>((EpochOf(word) + 1) & kEpochMask);
  if (!IsFree(next)) {
    // What was read may be stale; a full ring must be full now.
    return word_.load(std::memory_order_acquire) != word;
  }
  const bool moved = word_.compare_exchange_strong(word, OpenWord(next), std::memory_order_acq_rel);
  // Over the limits, the first producer that did not fit knows the end, and tells it.
  if (moved && Fits(word)) Seal(word);
  return true;
}

ReserveResult BatchRing::Reserve(const BatchCost& cost, Reservation* reservation) {
  if (cost.rows == 0 || cost.rows > limits_.rows || cost.units > limits_.units ||
      cost.work > limits_.work) {
    return ReserveResult::kTooLarge;
  }
  const uint64_t add = Pack(cost);
  const bool small =
      cost.rows <= small_rows_ && cost.units <= small_units_ && cost.work <= small_work_;
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
    // Only the first that does not fit finds a word before its add that did.
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

void BatchRing::Stamp(const Reservation& reservation, RowTicket* ticket, uint64_t flags) {
  if (ticket != nullptr) ticket->outcome = RowsOutcome::kDone;
  StampsOf(reservation.slot)[reservation.row].store(
      uint64_t{reservation.rows} << 48 | reinterpret_cast<uint64_t>(ticket) | flags,
      std::memory_order_release);
  work_ready_->NotifyOne();
}

void BatchRing::Publish(const Reservation& reservation, RowTicket* ticket) {
  Stamp(reservation, ticket, kStampPublished);
}

void BatchRing::PublishAwaited(const Reservation& reservation, RowTicket* ticket) {
  Stamp(reservation, ticket, kStampPublished | kStampAwaited);
}

bool BatchRing::IsDone(const Reservation& reservation) const {
  return slots_[reservation.slot].done.load(std::memory_order_acquire) ==
         (kDone | reservation.epoch);
}

RowsOutcome BatchRing::Wait(const Reservation& reservation, const RowTicket* ticket) {
  Slot& slot = slots_[reservation.slot];
  const uint32_t wanted = kDone | reservation.epoch;
  for (int i = 0; i < kWaitSpins; ++i) {
    if (slot.done.load(std::memory_order_acquire) == wanted) break;
    Pause();
  }
  uint32_t seen = slot.done.load(std::memory_order_acquire);
  if (seen != wanted) {
    // Counted in before `done` is read again, as `done` is written before the count is read.
    slot.sleepers.fetch_add(1, std::memory_order_seq_cst);
    while ((seen = slot.done.load(std::memory_order_seq_cst)) != wanted) {
      FutexWait(&slot.done, seen);
    }
    slot.sleepers.fetch_sub(1, std::memory_order_relaxed);
  }
  return ticket != nullptr ? ticket->outcome : slot.outcome;
}

void BatchRing::Release(const Reservation& reservation) {
  Slot& slot = slots_[reservation.slot];
  if (slot.readers.fetch_sub(1, std::memory_order_acq_rel) == 1) Free(reservation.slot);
}

void BatchRing::Free(uint32_t index) {
  Slot& slot = slots_[index];
  const uint64_t next = slot.open_epoch.load(std::memory_order_relaxed) + batches_;
  // seq_cst: an executor may sleep because no slot was free to open.
  slot.open_epoch.store(next, std::memory_order_seq_cst);
  work_ready_->NotifyOne();
}

bool BatchRing::HasWork() const {
  const uint64_t word = word_.load(std::memory_order_seq_cst);
  const uint64_t head = head_.load(std::memory_order_seq_cst);
  if (EpochOf(word) != (head & kEpochMask)) return true;
  return RowsOf(word) > 0 && IsFree(static_cast<uint32_t>((EpochOf(word) + 1) & kEpochMask));
}

uint32_t BatchRing::open_rows() const { return RowsOf(word_.load(std::memory_order_relaxed)); }

bool BatchRing::Claim(Claimed* claimed) {
  uint64_t epoch;
  while (true) {
    // First head, then word: if head is still the same at the CAS, the word was no older.
    epoch = head_.load(std::memory_order_acquire);
    const uint64_t word = word_.load(std::memory_order_acquire);
    if (EpochOf(word) != (epoch & kEpochMask)) {
      if (head_.compare_exchange_weak(epoch, epoch + 1, std::memory_order_acq_rel)) break;
    } else if (RowsOf(word) == 0 || !OpenNext(word)) {
      return false;
    }
  }
  claimed->epoch = epoch;
  claimed->slot = static_cast<uint32_t>(epoch & (batches_ - 1));
  Slot& slot = slots_[claimed->slot];
  uint64_t sealed;
  for (SpinWait wait; (sealed = slot.sealed.load(std::memory_order_acquire)) == 0;) wait.Once();
  claimed->rows = static_cast<uint32_t>(sealed >> 32 & kRowsMask);
  claimed->units = static_cast<uint32_t>(sealed);
  WaitForStamps(claimed);
  return true;
}

void BatchRing::WaitForStamps(Claimed* claimed) {
  const std::atomic<uint64_t>* stamps = StampsOf(claimed->slot);
  claimed->tickets = 0;
  claimed->awaited = 0;
  claimed->with_objects = false;
  for (uint32_t row = 0; row < claimed->rows;) {
    uint64_t stamp;
    for (SpinWait wait; (stamp = stamps[row].load(std::memory_order_acquire)) == 0;) wait.Once();
    ++claimed->tickets;
    claimed->awaited += (stamp & kStampAwaited) != 0;
    claimed->with_objects |= StampTicket(stamp) != nullptr;
    row += StampRows(stamp);
  }
}

void BatchRing::Complete(const Claimed& claimed, RowsOutcome outcome) {
  Slot& slot = slots_[claimed.slot];
  std::atomic<uint64_t>* stamps = StampsOf(claimed.slot);
  if (claimed.with_objects) {
    ForEachTicket(claimed, [outcome](uint32_t, uint32_t, RowTicket* ticket) {
      if (ticket == nullptr) return;
      if (ticket->outcome == RowsOutcome::kDone) ticket->outcome = outcome;
      if (ticket->done != nullptr) ticket->done(ticket);  // the ticket may be gone after it
    });
  }
  for (uint32_t row = 0; row < claimed.rows; ++row) stamps[row].store(0, std::memory_order_relaxed);
  slot.sealed.store(0, std::memory_order_relaxed);
  if (claimed.awaited == 0) return Free(claimed.slot);
  slot.outcome = outcome;
  slot.readers.store(claimed.awaited, std::memory_order_relaxed);
  slot.done.store(kDone | static_cast<uint32_t>(claimed.epoch & kEpochMask),
                  std::memory_order_seq_cst);
  if (slot.sleepers.load(std::memory_order_seq_cst) != 0) FutexWake(&slot.done, INT32_MAX);
}

}  // namespace penstock
