// One request's tensors on their way through the tensor scheduler. Made and owned by the caller;
// it may be used again after `done`: its vectors keep their memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "signature/tensor_runner.h"
#include "threads/request_context.h"

namespace penstock::sched {

struct TensorResult {
  // In: whether it is asked for, and where it is to be put; empty: wherever the scheduler likes.
  bool wanted = true;
  std::span<std::byte> sink;
  // Out: the shape, and the elements: in `sink`, or where they are to be read until `done` returns.
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};

struct TensorJob {
  // In, not changed until `done`: in the order of the signature; `rows` each where it has batches,
  // else `rows` is 1. What `inputs` point to stays until then.
  std::vector<signature::TensorData> inputs;
  std::vector<TensorResult> results;
  uint32_t rows = 1;
  RequestContext context;
  // The submitting thread may run the model itself, where nothing else is to do and it is short.
  bool may_lead = false;
  // Called once for a job that Submit took, on an executor of the model or within Submit: long work
  // belongs elsewhere, as the model waits. Throws nothing. The job is the caller's again.
  void (*done)(TensorJob* job, Status status) = nullptr;

  // The scheduler's from Submit to `done`.
  struct Progress {
    std::atomic<uint32_t> rows_open{0};  // not answered; taking off the last calls `done`
    std::atomic<bool> failed{false};     // the rest need not be run
    Status status;                       // first failure; written under the scheduler's mutex
    Clock::time_point submitted;
    int64_t bytes = 0;  // of inputs, as counted by Admission
    // For results that come in pieces: where each begins, and the memory of those without a sink.
    std::vector<std::byte*> placed;
    std::vector<std::unique_ptr<std::byte[]>> kept;
    int64_t kept_bytes = 0;  // as admitted
    // In a backlog, under its mutex.
    uint32_t line = 0;  // its client's
    TensorJob* next = nullptr;
    TensorJob* chosen = nullptr;  // the next of those that give rows to the batch being filled
    uint32_t next_row = 0;        // first row in no batch yet
    uint32_t take_rows = 0;       // rows for the batch being filled
  };
  Progress progress;

  uint32_t row_count() const { return rows; }
};

}  // namespace penstock::sched
