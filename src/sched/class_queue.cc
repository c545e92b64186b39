#include "sched/class_queue.h"

#include <algorithm>

#include "sched/clock_math.h"

namespace penstock::sched {
namespace {

// Batches of a ring: one under way, one open, the rest for bursts. Other jobs wait in the backlog,
// so more batches would only move the place of waiting.
constexpr size_t kRingBatches = 8;
// A job larger than 1 / kSmallParts of a batch goes to the backlog, which splits it: in the ring it
// could close a batch that is not full.
constexpr uint32_t kSmallParts = 8;

}  // namespace

ClassQueue::ClassQueue(const BatchLimits& limits,
                       const std::array<bool, program::kEncoderOutputs>& with_rings,
                       EventCount* work_ready)
    : limits_(limits),
      work_quantum_(static_cast<double>(limits.work) / batch::BatchRing::kLimitMax.work),
      work_ready_(work_ready) {
  for (size_t i = 0; i < kinds_.size(); ++i) {
    if (!with_rings[i]) continue;
    kinds_[i].ring = std::make_unique<batch::BatchRing>(
        kRingBatches,
        batch::BatchCost{limits.rows, limits.tokens, batch::BatchRing::kLimitMax.work}, work_ready);
    for (size_t slot = 0; slot < kRingBatches; ++slot) {
      kinds_[i].slots.emplace_back(limits.tokens, limits.rows);
    }
  }
}

bool ClassQueue::HasWork() const {
  return std::any_of(kinds_.begin(), kinds_.end(), [](const Kind& kind) { return kind.HasWork(); });
}

void ClassQueue::NoteDeadline(const EncodeJob& job) {
  if (job.context.deadline == Clock::time_point::max()) return;
  const int64_t deadline_ns = Nanoseconds(job.context.deadline);
  int64_t earliest = deadline_ns_.load(std::memory_order_relaxed);
  while (deadline_ns < earliest &&
         !deadline_ns_.compare_exchange_weak(earliest, deadline_ns, std::memory_order_relaxed)) {
  }
}

void ClassQueue::Put(EncodeJob* job, uint64_t work, bool little_waits) {
  NoteDeadline(*job);
  Kind& kind = Of(static_cast<int>(job->output));
  if (little_waits && TryRing(&kind, job, work)) return;
  kind.backlog.Push(job);
  work_ready_->NotifyOne();
}

bool ClassQueue::TryRing(Kind* kind, EncodeJob* job, uint64_t work) {
  if (kind->ring == nullptr || !kind->backlog.empty()) return false;
  batch::BatchCost cost;
  cost.rows = static_cast<uint32_t>(std::min<size_t>(job->rows(), UINT32_MAX));
  cost.units = static_cast<uint32_t>(std::min<size_t>(job->ids.size(), UINT32_MAX));
  // Rounded down: short rows count nothing, as their attention takes no time.
  cost.work = static_cast<uint32_t>(std::min(static_cast<double>(work) / work_quantum_, 4e9));
  if (cost.rows > std::max(1u, limits_.rows / kSmallParts) ||
      cost.units > std::max(1u, limits_.tokens / kSmallParts) ||
      cost.work > batch::BatchRing::kLimitMax.work / kSmallParts) {
    return false;
  }
  batch::Reservation place;
  if (kind->ring->Reserve(cost, &place) != batch::ReserveResult::kOk) return false;
  kind->slots[place.slot].Put(place.row, place.unit, job, 0, 0, job->rows());
  kind->ring->Publish(place, nullptr);
  return true;
}

int ClassQueue::NextKind() {
  const uint32_t first = next_kind_.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < kinds_.size(); ++i) {
    const size_t kind = (first + i) % kinds_.size();
    if (!kinds_[kind].HasWork()) continue;
    next_kind_.store(static_cast<uint32_t>(kind + 1), std::memory_order_relaxed);
    return static_cast<int>(kind);
  }
  deadline_ns_.store(INT64_MAX, std::memory_order_relaxed);
  return -1;
}

bool ClassQueue::Claim(int kind, Claimed* claimed) {
  Kind& from = Of(kind);
  if (from.ring == nullptr) return false;
  {
    const std::lock_guard lock(from.claim_mutex);
    if (!from.ring->Claim(&claimed->place)) return false;
  }
  claimed->batch = &from.slots[claimed->place.slot];
  claimed->batch->Seal(claimed->place.rows, claimed->place.units);
  return true;
}

}  // namespace penstock::sched
