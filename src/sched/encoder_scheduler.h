// EncoderScheduler: turns requests of any size into batches for one model.
//
//   Submit (any thread) --> queue of jobs --> executor thread: seal | forward | complete --> done
//
// The executor seals a batch the moment it is free: no timer, no thread in between. While one
// batch is worked on the next one gathers, so batches grow with the load and an idle server adds
// no waiting. A batch holds whole sequences of one output kind, at most max_batch_tokens tokens
// (a longer sequence goes alone). Every waiting job gets an even share of the batch first and the
// oldest get what is left: a request of thousands of rows does not hold up the small ones behind
// it. Rows of a job may run in several batches; they come back in the order they were given.
//
// Ownership: Submit takes the job; the executor alone touches it until `done` gives it back.
// Cancelled and expired jobs are dropped when a batch is sealed: rows not begun never reach the
// model. If a batch of several jobs fails, each is run again alone, so only the one at fault fails.
// NaN or infinity in a row fails that row's job only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "common/status.h"
#include "metrics/metrics.h"
#include "sched/encode_job.h"

namespace penstock {

struct EncoderSchedulerOptions {
  // Tokens of one batch. Measured with all-MiniLM-L6-v2 on one AVX-512 thread: 128 to 4096 tokens
  // cost the same processor time (within 4 %), so more only makes requests that arrive meanwhile
  // wait longer; 1024 leaves 64 rows for each of 16 threads.
  int32_t max_batch_tokens = 1024;
  int32_t max_batch_sequences = 512;
  // Tokens that may wait or be worked on; over it Submit refuses.
  int64_t max_queued_tokens = 1 << 20;
  // Value of the `model` label of the metrics.
  std::string model;
};

class EncoderScheduler {
 public:
  // Starts the executor thread. `metrics` must outlive the scheduler.
  EncoderScheduler(std::unique_ptr<EncoderRunner> runner, const EncoderSchedulerOptions& options,
                   Metrics* metrics);
  ~EncoderScheduler();  // Stop()
  EncoderScheduler(const EncoderScheduler&) = delete;
  EncoderScheduler& operator=(const EncoderScheduler&) = delete;

  // OK: the job is taken and `done` will be called once. Else `done` is never called:
  //   kResourceExhausted  the queue is full; retry_after_s from the rate it drains at
  //   kPayloadTooLarge    the job alone is over max_queued_tokens: trying again is no use
  //   kUnavailable        Stop() was called
  //   kInvalidArgument    no sequences, an empty one, or lengths that do not add up
  Status Submit(std::unique_ptr<EncodeJob> job);

  // Counts sequences of this model that a stage before it dropped, by the reason: kCancelled,
  // kDeadlineExceeded or kResourceExhausted; others are not counted.
  void CountDropped(StatusCode reason, size_t sequences);

  // Makes the series of a model that is not loaded yet, so that they are there from the start.
  static void RegisterMetrics(const std::string& model, Metrics* metrics);

  // Takes no more jobs, finishes those taken, joins the executor. May be called twice.
  void Stop();

  int64_t queued_tokens() const;
  uint64_t HeldBytes() const;
  uint64_t ReleaseMemory();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock
