// TensorForward: the runs of a tensor model: gathers the rows of a batch, runs the model over them,
// over halves of them where that fails, and hands out the results.
//
// A batch of fixed rows lies in a slot of TensorSlots; others are gathered in buffers of their
// runner, but one job alone is read where its caller has it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <vector>

#include "base/status.h"
#include "batch/tensor_slots.h"
#include "sched/executors.h"
#include "sched/tensor_answers.h"
#include "sched/tensor_backlog.h"
#include "sched/tensor_run_times.h"
#include "sched/tensor_totals.h"
#include "signature/tensor_runner.h"

namespace penstock::sched {

class TensorForward {
 public:
  // `rows_max`: of a run. `slots`: for fixed rows, else null. The pointers outlive this.
  TensorForward(const signature::TensorSignature* signature, uint32_t rows_max,
                batch::TensorSlots* slots,
                std::vector<std::unique_ptr<signature::TensorRunner>> runners, bool check_finite,
                TensorAnswers* answers, Admission* admission, TensorMetrics* metrics,
                TensorTotals* totals);

  size_t runners() const { return workers_.size(); }
  const TensorRunTimes& times() const { return times_; }
  // The pieces of the batch that a runner runs next; there is room for all its rows.
  std::vector<TensorPiece>& pieces(size_t runner) { return workers_[runner]->pieces; }

  // Runs pieces(runner): `rows` rows, with voids. Fixed rows: in `slot`, those of pieces from
  // `not_in_slot` on are copied there first. `sealed`: when the batch was formed.
  void Run(size_t runner, Priority priority, uint32_t slot, uint32_t rows, size_t not_in_slot,
           Clock::time_point sealed, Executors* executors, BatchTurn* turn);

  // Checks the values of a job's inputs.
  Status CheckValues(const TensorJob& job) const {
    return workers_[0]->runner->CheckValues(job.inputs);
  }

  uint64_t HeldBytes() const;
  uint64_t ReleaseMemory();

 private:
  static constexpr size_t kAlignment = 64;
  struct Free {
    void operator()(std::byte* bytes) const {
      ::operator delete[](bytes, std::align_val_t{kAlignment});
    }
  };
  struct Buffer {
    std::unique_ptr<std::byte[], Free> bytes;
    size_t capacity = 0;
  };
  // What one runner works with: its holder's.
  struct Worker {
    std::unique_ptr<signature::TensorRunner> runner;
    std::vector<TensorPiece> pieces;
    std::vector<const std::byte*> in;
    std::vector<std::byte*> out;
    std::mutex running;           // held while a batch runs
    std::vector<Buffer> buffers;  // by input
    std::atomic<uint64_t> buffer_bytes{0};
    std::vector<signature::TensorData> views, given;
    // By output: the shape of a result of fixed rows; bytes that were handed out.
    std::vector<std::vector<int64_t>> shapes;
    std::vector<size_t> cursors;
  };

  Status RunFixed(Worker* worker, uint32_t slot, uint32_t at, uint32_t rows);
  Status RunShapes(Worker* worker, std::span<const TensorPiece> pieces, uint32_t rows);
  Status Gather(Worker* worker, std::span<const TensorPiece> pieces, uint32_t rows);
  Status CheckGiven(const Worker& worker, uint32_t rows) const;
  void CopyIn(const TensorPiece& piece, uint32_t slot);
  // Runs each half of pieces that failed together, and halves of those, down to the job at fault.
  // Others have turns in between. The results of other than fixed rows are taken at once, for the
  // next run replaces them.
  void RunHalves(Worker* worker, uint32_t slot, std::span<const TensorPiece> pieces,
                 const Executors& executors, BatchTurn* turn);
  // Runs one half, without the jobs that died meanwhile.
  void RunAlive(Worker* worker, uint32_t slot, std::span<const TensorPiece> pieces,
                const Executors& executors, BatchTurn* turn);
  void RunAgain(Worker* worker, uint32_t slot, std::span<const TensorPiece> pieces,
                const Executors& executors, BatchTurn* turn);
  void TakeFixed(Worker* worker, const TensorPiece& piece, uint32_t slot);
  // Results of the last run, of `rows` rows; pieces are taken in order. `keep`: they are copied.
  void TakeGiven(Worker* worker, const TensorPiece& piece, uint32_t rows, bool keep);
  void Put(const TensorPiece& piece, size_t index, std::span<const int64_t> shape,
           std::span<const std::byte> bytes, bool keep);
  // The results of a job of fixed rows that is led, if they are small: copied into memory of the
  // thread, so that its runner is free while the job is answered. False: they stay.
  static bool MoveAside(TensorJob* job);
  void Answer(const TensorPiece& piece, Clock::time_point sealed, Clock::time_point forward,
              Clock::time_point done);
  // The jobs whose rows all are in the batch count as answered from here on.
  void CountOut(const Worker& worker, Priority priority);
  // Before the answers of a run, and after them.
  void CountRun(uint32_t rows, Clock::duration input, Clock::duration infer);
  void CountHandedOut(uint32_t rows, Clock::duration output);
  void Observe(const Worker& worker, Priority priority, uint32_t rows, double took_s);

  const signature::TensorSignature* const signature_;
  batch::TensorSlots* const slots_;
  const uint32_t rows_max_;  // of a run
  const bool check_finite_;
  TensorAnswers* const answers_;
  Admission* const admission_;
  TensorMetrics* const metrics_;
  TensorTotals* const totals_;
  TensorRunTimes times_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace penstock::sched
