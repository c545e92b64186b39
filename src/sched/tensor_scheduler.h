// TensorScheduler: turns requests of any number of rows into batches for one tensor model.
//
//   Submit, any thread        few rows of fixed shape --> written in place into the ring's open
//                             batch
//                             many rows, other shapes, bulk, or others wait --> backlog of its
//                             class model and processor idle, may_lead --> runs the model itself,
//                             at once
//   executor, one a replica   takes a turn at the processor; then the oldest batch of the ring,
//                             filled up from the backlog, or rows of the backlog; runs the model;
//                             gives the turn back; calls `done` of each job
//
// Its parts are those of the encoders' scheduler: Admission, Executors, the gate; BatchRing,
// RunWriter and TensorSlots hold rows of fixed shape. There is no timer: a batch is what has come
// while the model was at work, and partial batches run at once when it is free.
//
// Order       Jobs in the ring are older than jobs in the backlog. In the backlog clients get equal
//             shares, by their weights (fair_share.h), and jobs of a client take turns, so that a
//             request of a million rows does not hold up small ones; rows of a job come back in the
//             order they were given. If several clients send and more than two batches wait, every
//             job goes through the backlog. Classes are as in encoder_scheduler.h. A bulk batch
//             takes about 25 ms at most while interactive work of any model is about.
// Shapes      If rows have no fixed shape (dimensions that vary, BYTES, max_batch_size 0), every
//             job goes through the backlog, and a batch has jobs whose rows have one shape. A job
//             with BYTES is not split: its rows have unlike lengths.
// Failures    Halves of a failed batch are run again, down to one job, so that only those at fault
//             fail. Others have turns at the processor in between.
// Dead jobs   Cancelled and expired jobs are answered when their batch is formed; those of the
//             backlog also by Submit, every 20 ms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "gate/compute_gate.h"
#include "metrics/metrics.h"
#include "sched/tensor_job.h"
#include "signature/tensor_runner.h"

namespace penstock::sched {

struct TensorSchedulerOptions {
  // Rows, and bytes of inputs, that may wait or be worked on, three quarters of it bulk.
  int64_t max_queued_rows = 1 << 20;
  int64_t max_queued_bytes = int64_t{256} << 20;
  // The ring's memory; rows for which it is too small go through the backlog.
  uint64_t ring_bytes_max = uint64_t{64} << 20;
  int32_t linger_us = 0;  // how long a batch that is not full waits for more
  int32_t bulk_every = 8;
  double lead_s_max = 0.0005;  // longest run of a submitting thread; 0: none
  double idle_release_s = 0;   // then the runners' memory is released; 0: never
  // Jobs whose results hold NaN or infinity (FP32, FP64) fail.
  bool check_finite = false;
  gate::ComputeGate* gate = nullptr;       // outlives the scheduler; null: one of its own
  std::function<Clock::time_point()> now;  // for tests; null: the steady clock
  bool manual = false;                     // for tests: no threads, Step does the work
  std::string model;                       // value of the label of metrics
};

// Totals since the model was loaded. Times are sums over rows' requests, or over runs.
struct TensorStatistics {
  struct Times {
    uint64_t count = 0;
    uint64_t ns = 0;
  };
  Times success, fail;         // requests, from Submit to `done`
  Times queue;                 // requests, until their first batch began
  Times input, infer, output;  // runs: gathering of inputs; the model; results handed out
  uint64_t rows = 0;           // computed
  uint64_t runs = 0;           // of the model
  int64_t last_run_unix_ms = 0;
  struct Batch {
    Times input, infer, output;
  };
  std::map<uint32_t, Batch> batches;  // by rows of a run
  // Which scheduler of the process counted: later ones have larger numbers, from 1 on.
  uint64_t scheduler = 0;
};

class TensorScheduler {
 public:
  // One runner a replica. Allocates the ring's memory and starts the executors. `metrics` outlives
  // the scheduler. kResourceExhausted: memory or threads are short.
  static Expected<std::unique_ptr<TensorScheduler>> Make(
      signature::TensorSignature signature,
      std::vector<std::unique_ptr<signature::TensorRunner>> runners,
      const TensorSchedulerOptions& options, metrics::Metrics* metrics);
  // What Make allocates for batches, to be admitted before.
  static uint64_t BatchBytes(const signature::TensorSignature& signature, size_t runners,
                             const TensorSchedulerOptions& options);
  ~TensorScheduler();  // Stop()
  TensorScheduler(const TensorScheduler&) = delete;
  TensorScheduler& operator=(const TensorScheduler&) = delete;

  const signature::TensorSignature& signature() const;

  // OK: the job is taken, and `done` will be called once, within this call if it led. Its inputs
  // are as the signature wants them: types, shapes and bytes. Else `done` is never called:
  //   kResourceExhausted  the queue is full, with retry_after_s; or memory is short
  //   kPayloadTooLarge    the job alone is over its class's part of the queue
  //   kUnavailable        Stop() was called
  //   other codes         the model does not take these values (TensorRunner::CheckValues)
  Status Submit(TensorJob* job);

  // Manual mode: forms and runs one batch on this thread. False: there is nothing to do.
  bool Step();

  TensorStatistics Statistics() const;
  int64_t queued_rows() const;
  int64_t queued_bytes() const;  // of their inputs
  size_t replicas() const;
  // Refuses new jobs, finishes those taken, joins the executors. Not within `done`.
  void Stop();
  uint64_t HeldBytes() const;
  uint64_t ReleaseMemory();

 private:
  struct Impl;
  explicit TensorScheduler(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::sched
