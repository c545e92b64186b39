// ClassQueue: the jobs of one priority class that wait to be put into batches, by output kind.
//
// The ring and the backlog of a kind are one queue: a small job reserves rows in the ring's open
// batch and writes its ids in place; a large one, and all while one waits in the backlog, join the
// backlog. So jobs in the ring are older than those in the backlog.
//
// Any thread may Put; NextKind, Claim, Fill and the sweeps are for threads that run batches.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "batch/batch_ring.h"
#include "sched/backlog.h"
#include "sched/batch_limits.h"
#include "sched/encode_batch.h"
#include "threads/request_context.h"

namespace penstock::sched {

class ClassQueue {
 public:
  // `limits` are those of its batches. `with_rings` has an entry for each output kind.
  // `work_ready` is notified of new jobs; it outlives the queue.
  ClassQueue(const BatchLimits& limits,
             const std::array<bool, program::kEncoderOutputs>& with_rings, EventCount* work_ready);
  ClassQueue(const ClassQueue&) = delete;
  ClassQueue& operator=(const ClassQueue&) = delete;

  // The job's rows, of `work` in all, wait here; in the ring only where `little_waits`, for there
  // clients have no turns. Throws nothing.
  void Put(EncodeJob* job, uint64_t work, bool little_waits);
  // As JobLine::IsBelowShare, of the job's kind.
  bool IsBelowShare(const EncodeJob& job) {
    return Of(static_cast<int>(job.output))
        .backlog.IsBelowShare(job.context.client, job.context.client_weight);
  }
  // seq_cst: for use between PrepareWait and Wait.
  bool HasWork() const;
  // The earliest deadline of the jobs that wait, or that waited when it was last empty; an
  // estimate.
  int64_t earliest_deadline_ns() const { return deadline_ns_.load(std::memory_order_relaxed); }

  // The kind whose turn it is among those that have work; -1: none has.
  int NextKind();

  // A batch of a ring, until it is given back.
  struct Claimed {
    EncodeBatch* batch = nullptr;  // sealed
    batch::BatchRing::Claimed place;
  };
  // The oldest batch of the kind's ring; false: there is none.
  bool Claim(int kind, Claimed* claimed);
  void Complete(int kind, const Claimed& claimed) { Of(kind).ring->Complete(claimed.place); }
  // As Backlog::Fill.
  template <typename OnFirst>
  [[nodiscard]] EncodeJob* Fill(int kind, EncodeBatch* batch, const BatchLimits& limits,
                                Clock::time_point now, OnFirst on_first) {
    return Of(kind).backlog.Fill(batch, limits, now, on_first);
  }
  // As Backlog::Sweep.
  template <typename IsDead>
  EncodeJob* Sweep(int kind, IsDead is_dead, size_t live_max) {
    return Of(kind).backlog.Sweep(is_dead, live_max);
  }
  // Calls visit(job) for each job in unclaimed batches of rings. The jobs stay alive meanwhile.
  template <typename Visit>
  void ForEachInRings(Visit visit) {
    for (Kind& kind : kinds_) {
      if (kind.ring == nullptr) continue;
      const std::lock_guard lock(kind.claim_mutex);
      kind.ring->ForEachWaiting(
          [&](uint32_t slot, uint32_t row) { visit(kind.slots[slot].owner(row)); });
    }
  }

 private:
  struct Kind {
    std::unique_ptr<batch::BatchRing> ring;  // null: all goes through the backlog
    std::mutex claim_mutex;          // taken to Claim, and to look at batches not claimed yet
    std::vector<EncodeBatch> slots;  // of the ring
    Backlog backlog;
    bool HasWork() const { return !backlog.empty() || (ring != nullptr && ring->HasWork()); }
  };

  Kind& Of(int kind) { return kinds_[static_cast<size_t>(kind)]; }
  bool TryRing(Kind* kind, EncodeJob* job, uint64_t work);
  void NoteDeadline(const EncodeJob& job);

  const BatchLimits limits_;
  const double work_quantum_;  // attention work of one unit in a ring's word
  EventCount* const work_ready_;
  std::array<Kind, program::kEncoderOutputs> kinds_;
  std::atomic<uint32_t> next_kind_{0};  // where the search for work begins
  std::atomic<int64_t> deadline_ns_{INT64_MAX};
};

}  // namespace penstock::sched
