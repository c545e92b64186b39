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
#include "sched/admission.h"
#include "sched/backlog.h"
#include "sched/bulk_share.h"
#include "sched/call_count.h"
#include "sched/encode_batch.h"
#include "sched/encoder_scheduler.h"
#include "sched/scheduler_metrics.h"

namespace penstock {

inline constexpr size_t kOutputKinds = 3;

struct EncoderScheduler::Impl {
  // Jobs of one lane and output kind. Ring batches are older than what is in the backlog.
  struct Queue {
    std::unique_ptr<BatchRing> ring;  // null: all goes through the backlog
    std::mutex claim_mutex;           // taken to Claim, and to look at batches nobody has claimed
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
  // What a batch is to be made of.
  struct Choice {
    Queue* queue = nullptr;
    Priority priority = Priority::kInteractive;
    EncoderOutput output = EncoderOutput::kPooled;
    BulkShare::Turn turn;
  };
  struct DeadRows {
    EncodeJob* job;
    uint32_t rows;
  };
  // A runner that is the holder's, if one was free.
  class RunnerHold {
   public:
    explicit RunnerHold(Impl* impl);
    ~RunnerHold();
    RunnerHold(const RunnerHold&) = delete;
    RunnerHold& operator=(const RunnerHold&) = delete;
    bool held() const { return runner_ >= 0; }
    size_t runner() const { return static_cast<size_t>(runner_); }

   private:
    Impl* const impl_;
    const int runner_;
  };
  // The right to run a batch of a class. With several replicas bulk never has the last one.
  class Permit {
   public:
    Permit(Impl* impl, Priority priority);
    ~Permit();
    Permit(const Permit&) = delete;
    Permit& operator=(const Permit&) = delete;
    bool held() const { return held_; }

   private:
    Impl* const impl_;
    bool counted_ = false;  // in bulk_running
    bool held_ = true;
  };

  Impl(std::vector<std::unique_ptr<EncoderRunner>> runners_in,
       const EncoderSchedulerOptions& options_in, Metrics* metrics_in);
  ~Impl();

  // --- encoder_scheduler.cc: any thread -------------------------------------------------------
  Status Validate(const EncodeJob& job) const;
  Status CountIn(const EncodeJob& job);
  void CountOut(const EncodeJob& job);
  // Counts the job in and makes room for its results; throws or fails with nothing left behind.
  Status Accept(EncodeJob* job);
  Status Submit(std::unique_ptr<EncodeJob> job);
  const BatchLimits& LimitsOf(Priority priority, Clock::time_point now) const;
  void SeeInteractive(Clock::time_point now);
  bool MayLead(const EncodeJob& job, uint64_t work) const;
  bool TryLead(EncodeJob* job, uint64_t work);
  bool TryRing(Queue* queue, EncodeJob* job, uint64_t work);
  void Stop();
  void JoinExecutors();

  // --- executor.cc: executors, leaders and Step, each with a runner of its own -----------------
  void Executor(size_t index);
  // Sleeps until there may be work and a runner; false: stopped, and nothing is left.
  bool AwaitWork(size_t index);
  void WaitForRunner();
  int64_t SleepNs(size_t index) const;
  void ReleaseIfIdle();
  bool RunOnce(size_t runner);
  bool Lingers(Clock::time_point now);
  bool Pick(Choice* choice);
  bool HasWork() const;
  bool BulkMayRun() const;
  // False: another executor was faster.
  bool RunBatch(const Choice& choice, size_t runner);
  // Fills `batch` up from the queue's backlog.
  void FillUp(const Choice& choice, Clock::time_point now, EncodeBatch* batch);
  // Takes the rows of dead jobs out of a batch and answers for them.
  void DropDead(EncodeBatch* batch, size_t runner, Clock::time_point now);
  // Dead jobs of a backlog: all, or those older than the first `live_max` that live.
  void SweepBacklog(Queue* queue, Clock::time_point now, size_t live_max);
  void SweepSometimes(Clock::time_point now);
  // Dead jobs in rings count no more; they are answered when their batch is formed.
  void DiscountSometimes(Clock::time_point now);
  bool IsDead(const EncodeJob& job, Clock::time_point now) const;
  // Sets the job's status if it is cancelled or expired, and counts `rows`.
  void MarkDead(EncodeJob* job, Clock::time_point now, size_t rows);
  void Fail(EncodeJob* job, Status status);
  void Execute(EncodeBatch* batch, size_t runner, Priority lane, EncoderOutput output,
               Clock::time_point sealed);
  void RunRows(EncodeBatch* batch, size_t begin, size_t end, size_t runner, EncoderOutput output);
  Status RunModel(EncodeBatch* batch, size_t begin, size_t end, size_t runner,
                  EncoderOutput output);
  void CheckRows(const EncodeBatch& batch, EncodeJob* job, size_t begin, size_t end);
  void Observe(const EncodeBatch& batch, Priority lane, const Moments& moments);
  // `rows` of the job are through; the last one calls `done`.
  void FinishRows(EncodeJob* job, uint32_t rows, const Moments* moments);
  void Complete(EncodeJob* job);

  Clock::time_point Now() const { return options.now ? options.now() : Clock::now(); }
  Lane& lane(Priority priority) { return lanes[static_cast<size_t>(priority)]; }

  const EncoderSchedulerOptions options;
  const BatchLimits limits;
  const BatchLimits bulk_limits;  // while interactive work is about
  const double work_quantum;      // attention work of one unit in a ring's word
  const std::vector<std::unique_ptr<EncoderRunner>> runners;
  SchedulerMetrics metrics;

  EventCount work_ready;   // executors without work
  EventCount runner_free;  // executors with work and without a runner
  RunnerSet free_runners;
  std::array<Lane, kPriorities> lanes;
  std::vector<EncodeBatch> own_batches;          // [runners]: for backlog and leaders
  std::vector<std::vector<DeadRows>> dead_rows;  // [runners]: room for a batch's, see DropDead

  CallCount submitters;
  Admission admission;
  BulkShare bulk_share;
  std::atomic<uint32_t> bulk_running{0};
  std::atomic<int64_t> interactive_ns{INT64_MIN / 2};  // when interactive work was last seen
  std::atomic<int64_t> linger_from_ns{0};              // when work was first seen; 0: none
  std::atomic<int64_t> swept_ns{0};
  std::atomic<int64_t> discounted_ns{0};
  std::atomic<int64_t> last_run_ns{0};
  std::atomic<bool> released{false};  // memory was released and nothing ran since
  std::atomic<bool> stopping{false};
  std::mutex failure_mutex;  // first failures of jobs
  std::mutex join_mutex;     // Stop() from several threads
  std::vector<std::thread> executors;
};

}  // namespace penstock
