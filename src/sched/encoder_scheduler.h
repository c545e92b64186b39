// EncoderScheduler: turns requests of any size into batches for one model.
//
//   Submit, any thread        small job --> reserve, write and publish in its class's ring
//                             large job, or others wait --> its class's backlog
//                             model and processor idle, may_lead --> runs the model itself, at once
//   executor, one a replica   takes a turn at the processor; then the oldest sealed batch, or seals
//                             the open one; takes dead rows out; fills it up from the backlog;
//                             forward; gives the turn back; each row's result is already where the
//                             caller reads it; `done`
//
// Its parts: Admission (bounds, stopping), a ClassQueue for each priority class, Executors
// (threads, runners, leaders, turns), EncodeForward and JobAnswers (a batch's run and its answers).
//
// No timer and no thread in between: while one batch is worked on the next one gathers, so batches
// grow with the load and an idle server adds no waiting. A batch holds whole sequences of one class
// and one output kind, and is closed by tokens, rows and attention work (batch_limits.h); a
// sequence that is over these goes alone.
//
// Order of jobs
//   within a class Ring and backlog are one queue: while a job waits in the backlog, later ones
//                  join it there instead of passing it in the ring, and jobs in the ring are older.
//                  The ring has about two batches at most, so that little is ahead of a client
//                  that comes new. In the backlog clients have even shares by their weights
//                  (fair_share.h), and jobs of a client take turns (backlog.h): each gives a row
//                  before one gives two, so neither many requests nor one of thousands of rows hold
//                  up the small ones behind them. Shares order work; batches are as full. Rows of a
//                  job may run in several batches, at once on several replicas; they come back in
//                  the order they were given.
//   classes        Interactive goes before bulk, over all models of a processor, and bulk ages
//                  (gate/compute_gate.h). While interactive work of any of them, or a load, was
//                  seen in the last second, a bulk batch takes at most about kBulkBatchS, where the model's
//                  times are known; what fills up an interactive one while text is generated
//                  beside it, whose next token waits, kBesideTextS. Both are cut where batches
//                  take longer than was measured. So an interactive job that finds
//                  its class empty waits for the batch under way and at most one aged batch. With
//                  several replicas bulk never has the last one, be it led or not.
//   bound          Tokens and rows taken and not answered, of which bulk may fill three quarters
//                  (admission.h); over it Submit refuses, with retry_after_s from the rate at which
//                  the model works. A client that has less waiting than others may go over it by an
//                  eighth.
//   deadlines      Cancelled and expired rows are taken out when a batch is formed, and those in
//                  the backlog also by Submit. In a ring dead rows lie until their batch is formed,
//                  for bulk perhaps after all batches of its ring; but they keep no job out: before
//                  Submit refuses one, they leave the bound. They are counted by reason.
//
// Failures: if a batch of several jobs fails, its halves are run again, down to one job, so only
// those at fault fail; others have turns at the processor in between. An exception of the model is
// a failure as an error is. NaN or infinity in a row fails that row's job only. Without memory
// Submit refuses, and nothing is left behind.
//
// Ownership: Submit takes the job. Until `done` gives it back, threads that hold a batch with its
// rows read its inputs and write its results; EncodeJob::Progress states what owns each part. A
// runner belongs to the thread that took it from the RunnerSet.
//
// Leaving no work behind: executors.h. Once the executors have ended, Stop waits for all calls of
// Submit, so a caller may destroy the scheduler when it has its answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "gate/compute_gate.h"
#include "metrics/metrics.h"
#include "sched/batch_limits.h"
#include "sched/encode_job.h"
#include "sched/scheduler_metrics.h"

namespace penstock::sched {

struct EncoderSchedulerOptions {
  // Tokens of one batch; EncoderEngine measures the knee where it is kAutoBatchTokens.
  static constexpr int32_t kAutoBatchTokens = 0;
  int32_t max_batch_tokens = 1024;
  // Sequences of one batch; EncoderEngine takes the backend's where it is kAutoBatchRows.
  static constexpr int32_t kAutoBatchRows = 0;
  int32_t max_batch_rows = 512;
  // Times of batches, where known: bound their attention work and how long a thread may lead.
  BatchTimes times;
  // Longest sequence of the model, for the bound of attention work.
  int32_t length_max = 512;
  // Tokens and sequences that may wait or be worked on, three quarters of it bulk; over it Submit
  // refuses.
  int64_t max_queued_tokens = 1 << 20;
  int64_t max_queued_rows = 1 << 17;
  // How long a batch that is not full waits for more, once the model is free. 0: not at all.
  int32_t linger_us = 0;
  // The rule of ageing, see above: bulk's share of the time is 1 / (bulk_every + 1). At least 1.
  int32_t bulk_every = 8;
  // Longest batch that a submitting thread runs itself; 0: none.
  double lead_s_max = 0.02;
  // Turns of the gate that are one device's, where a batch waits for those before it; 1: each turn
  // computes by itself. With several a submitting thread runs its own batch only while none is taken,
  // and kBulkBatchS and kBesideTextS are divided by them.
  int32_t queued_turns = 1;
  // After so long idle the runners' activation memory is released; 0: never.
  double idle_release_s = 0;
  // Gate of the processor the runners compute on; outlives the scheduler. Null: one of its own.
  gate::ComputeGate* gate = nullptr;
  // For tests and simulations: another clock; and no threads, Step() does the work. Where models
  // share a gate in manual mode, all work is done before one is stopped.
  std::function<Clock::time_point()> now;
  bool manual = false;
  // Value of the `model` label of the metrics.
  std::string model;
};

class EncoderScheduler {
 public:
  static constexpr size_t kReplicasMax = 64;  // as RunnerSet
  // Longest bulk batch while interactive work or a load was seen in the last second.
  static constexpr double kBulkBatchS = 0.025;
  // Longest batch of large requests while interactive text was generated in the last second: two of
  // them may come between two tokens.
  static constexpr double kBesideTextS = 0.015;

  // Starts an executor thread for each runner. `metrics` must outlive the scheduler. Throws what
  // std::thread and operator new do, with no thread left behind.
  EncoderScheduler(std::vector<std::unique_ptr<program::EncoderRunner>> runners,
                   const EncoderSchedulerOptions& options, metrics::Metrics* metrics);
  ~EncoderScheduler();  // Stop()
  EncoderScheduler(const EncoderScheduler&) = delete;
  EncoderScheduler& operator=(const EncoderScheduler&) = delete;

  // OK: the job is taken and `done` will be called once, within this call if it led. Else `done` is
  // never called. Throws nothing:
  //   kResourceExhausted  the queue is full, retry_after_s from the rate it drains at; or there is
  //                       no memory for the results
  //   kPayloadTooLarge    the job alone is over its class's part of the queue: trying again is no
  //                       use
  //   kUnavailable        Stop() was called
  //   kInvalidArgument    no sequences, an empty one, or lengths that do not add up
  Status Submit(std::unique_ptr<EncodeJob> job);

  // Manual mode: forms and runs one batch on this thread. False: there is nothing to do (yet), or
  // another model has the processor; then this one is in line for it.
  bool Step();

  // Counts sequences of this model that an earlier stage dropped, by reason: kCancelled,
  // kDeadlineExceeded or kResourceExhausted; others are not counted.
  void CountDropped(StatusCode reason, size_t sequences);
  // Counts a request for this model that was refused before its text was read.
  void CountRefused(Priority priority);

  // Makes the series of a model that is not loaded yet, so that they are there from the start.
  static void RegisterMetrics(const std::string& model, metrics::Metrics* metrics);

  // Refuses new jobs, finishes those taken, joins the executors and waits for calls of Submit that
  // have begun. May be called twice, but not within `done`. Submit may be called meanwhile, but not
  // while the scheduler is destroyed.
  void Stop();

  int64_t queued_tokens() const;
  int64_t queued_rows() const;
  const BatchLimits& limits() const;
  const BatchTimes& times() const;
  size_t replicas() const;
  // The bytes of all runners, see EncoderRunner.
  uint64_t HeldBytes() const;
  uint64_t ReleaseMemory();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace penstock::sched
