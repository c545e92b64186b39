// EncodeForward: runs a formed encoder batch through the model and answers its jobs.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "program/encoder_runner.h"
#include "sched/batch_limits.h"
#include "sched/encode_batch.h"
#include "sched/executors.h"
#include "sched/job_answers.h"

namespace penstock::sched {

class EncodeForward {
 public:
  // `limits`: the largest batch, for its buffers. The pointers outlive this.
  EncodeForward(std::vector<std::unique_ptr<program::EncoderRunner>> runners,
                const BatchLimits& limits, JobAnswers* answers, Admission* admission,
                SchedulerMetrics* metrics);

  size_t runners() const { return runners_.size(); }
  const program::EncoderRunner& runner(size_t i) const { return *runners_[i]; }
  int32_t OutputWidth(program::EncoderOutput output) const {
    return runners_[0]->OutputWidth(output);
  }
  // The outputs the model has.
  std::array<bool, program::kEncoderOutputs> Offered() const;
  uint64_t HeldBytes() const;
  uint64_t ReleaseMemory();

  // By how much longer batches take now than was measured when the model was loaded: other threads
  // of the process use the processors, too, and other models the caches. At least 1.
  double slowdown() const { return slowdown_.load(std::memory_order_relaxed); }

  // The batch of the runner's holder, for rows that are in no ring.
  EncodeBatch& own_batch(size_t runner) { return own_batches_[runner]; }
  // Removes the rows of dead jobs from the batch and answers them.
  void DropDead(EncodeBatch* batch, size_t runner, Clock::time_point now);
  // Runs a batch that has rows and answers its jobs; ends the turn in between. Afterwards all rows
  // are answered.
  void Run(EncodeBatch* batch, size_t runner, Priority priority, program::EncoderOutput output,
           Clock::time_point sealed, Executors* executors, BatchTurn* turn);

 private:
  struct DeadRows {
    EncodeJob* job;
    uint32_t rows;
  };
  class Watch;
  // A batch under way.
  struct Running {
    EncodeBatch* batch = nullptr;
    size_t runner = 0;
    program::EncoderOutput output = program::EncoderOutput::kPooled;
    const Executors* executors = nullptr;
    BatchTurn* turn = nullptr;
    double device_s = 0;  // what its runs took of a device apart from the host; 0: they ran there
  };
  // Runs the rows; where that fails, halves of them again, down to the job at fault.
  void RunRows(Running* running, size_t begin, size_t end);
  Status RunModel(Running* running, size_t begin, size_t end);
  // The same of rows of a batch that failed, but for those of jobs that died meanwhile.
  void RunAlive(Running* running, size_t begin, size_t end);
  void CheckRows(const EncodeBatch& batch, EncodeJob* job, size_t begin, size_t end);
  void Observe(const Running& running, Priority priority, const BatchTimestamps& timestamps);
  void ObserveSlowdown(const EncodeBatch& batch, double took_s);

  const BatchLimits limits_;
  const std::vector<std::unique_ptr<program::EncoderRunner>> runners_;
  JobAnswers* const answers_;
  Admission* const admission_;
  SchedulerMetrics* const metrics_;
  std::atomic<double> slowdown_{1};               // written by runners' holders, the last one wins
  std::vector<EncodeBatch> own_batches_;          // [runners]: for backlog and leaders
  std::vector<std::vector<DeadRows>> dead_rows_;  // [runners]: room for a batch's, see DropDead
};

}  // namespace penstock::sched
