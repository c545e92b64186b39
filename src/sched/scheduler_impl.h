// What EncoderScheduler is made of; for its own source files. encoder_scheduler.cc is the side of
// those who submit, executor.cc that of those who run batches. encoder_scheduler.h says how the
// two work together.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "batch/batch_ring.h"
#include "batch/runner_set.h"
#include "common/event_count.h"
#include "sched/backlog.h"
#include "sched/encode_batch.h"
#include "sched/encoder_scheduler.h"
#include "sched/scheduler_metrics.h"

namespace penstock {

inline constexpr size_t kOutputKinds = 3;

struct EncoderScheduler::Impl {
  // Jobs of one lane and output kind. Ring batches are older than what is in the backlog.
  struct Queue {
    std::unique_ptr<BatchRing> ring;  // null: all goes through the backlog
    std::vector<EncodeBatch> slots;   // of the ring
    Backlog backlog;
    bool HasWork() const { return !backlog.empty() || (ring != nullptr && ring->HasWork()); }
  };
  struct Lane {
    std::array<Queue, kOutputKinds> kinds;
    std::atomic<uint32_t> next_kind{0};  // where the search for work begins
    bool HasWork() const;
  };
  // Points in time a batch passes.
  struct Moments {
    Clock::time_point sealed, forward, done;
  };

  Impl(std::vector<std::unique_ptr<EncoderRunner>> runners_in,
       const EncoderSchedulerOptions& options_in, Metrics* metrics_in);

  // --- encoder_scheduler.cc: any thread -------------------------------------------------------
  Status Validate(const EncodeJob& job) const;
  Status Admit(const EncodeJob& job, Priority lane);
  Status QueueFull(int64_t tokens, int64_t rows) const;
  void Withdraw(int64_t tokens, int64_t rows);
  Status Submit(std::unique_ptr<EncodeJob> job);
  bool MayLead(const EncodeJob& job, uint64_t work) const;
  bool TryLead(EncodeJob* job, uint64_t work);
  bool TryRing(Queue* queue, EncodeJob* job, uint64_t work);
  void Stop();

  // --- executor.cc: executors, leaders and Step, each with a runner of its own -----------------
  void Executor(size_t index);
  // Sleeps until there may be work and a runner; false: stopped, and nothing is left.
  bool AwaitWork(size_t index);
  void WaitForRunner();
  int64_t SleepNs(size_t index) const;
  void ReleaseIfIdle();
  bool RunOnce(size_t runner);
  bool Lingers(Clock::time_point now);
  Queue* Pick(Priority* lane, EncoderOutput* output);
  bool HasWork() const;
  bool BulkMayRun() const;
  void RunBatch(Queue* queue, size_t runner, Priority lane, EncoderOutput output);
  // Takes the rows of dead jobs out of a batch and answers for them.
  void DropDead(EncodeBatch* batch, Clock::time_point now);
  // Dead jobs of a backlog: all, or those older than the first `live_max` that live.
  void SweepBacklog(Queue* queue, Clock::time_point now, size_t live_max);
  void SweepSometimes(Clock::time_point now);
  bool IsDead(const EncodeJob& job, Clock::time_point now) const;
  // Sets the job's status if it is cancelled or expired, and counts `rows`.
  void MarkDead(EncodeJob* job, Clock::time_point now, size_t rows);
  void Fail(EncodeJob* job, Status status);
  void Execute(EncodeBatch* batch, size_t runner, Priority lane, EncoderOutput output,
               Clock::time_point sealed);
  void RunRows(EncodeBatch* batch, size_t begin, size_t end, size_t runner, EncoderOutput output);
  void CheckRows(const EncodeBatch& batch, EncodeJob* job, size_t begin, size_t end);
  void Observe(const EncodeBatch& batch, Priority lane, const Moments& moments);
  // `rows` of the job are through; the last one calls `done`.
  void FinishRows(EncodeJob* job, uint32_t rows, const Moments* moments);
  void Complete(EncodeJob* job);

  Clock::time_point Now() const { return options.now ? options.now() : Clock::now(); }
  Lane& lane(Priority priority) { return lanes[static_cast<size_t>(priority)]; }

  const EncoderSchedulerOptions options;
  const BatchLimits limits;
  const double work_quantum;  // attention work of one unit in a ring's word
  const std::vector<std::unique_ptr<EncoderRunner>> runners;
  SchedulerMetrics metrics;

  EventCount work_ready;   // executors without work
  EventCount runner_free;  // executors with work and without a runner
  RunnerSet free_runners;
  std::array<Lane, kPriorities> lanes;
  std::vector<EncodeBatch> own_batches;  // [runners]: for backlog and leaders

  // Of all jobs taken and not answered. Rows: the last to be taken off, see Stop.
  std::atomic<int64_t> queued_tokens{0};
  std::atomic<int64_t> queued_rows{0};
  std::atomic<double> tokens_per_s{0};  // moving averages; 0: not measured
  std::atomic<double> rows_per_s{0};
  std::atomic<uint32_t> interactive_streak{0};  // batches in a row while bulk waited
  std::atomic<uint32_t> bulk_running{0};
  std::atomic<int64_t> linger_from_ns{0};  // when work was first seen; 0: none
  std::atomic<int64_t> swept_ns{0};
  std::atomic<int64_t> last_run_ns{0};
  std::atomic<bool> released{false};  // memory was released and nothing ran since
  std::atomic<bool> stopping{false};
  std::mutex failure_mutex;  // first failures of jobs
  std::mutex join_mutex;     // Stop() from several threads
  std::vector<std::thread> executors;
};

}  // namespace penstock
