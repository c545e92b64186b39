// One request's sequences on their way through the encoder scheduler.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "program/encoder_runner.h"
#include "threads/request_context.h"

namespace penstock::sched {

struct EncodeJob {
  // Inputs, set by the caller and not changed. Sequences laid end to end, `lengths` says where each
  // ends: the sum of lengths == ids.size(), every length > 0.
  std::vector<int32_t> ids;
  std::vector<int32_t> type_ids;  // empty: all 0, or as long as ids
  std::vector<int32_t> lengths;
  // Leading tokens of each sequence that pooling leaves out; empty: none, or as long as lengths.
  std::vector<int32_t> pool_skip;
  program::EncoderOutput output = program::EncoderOutput::kPooled;
  RequestContext context;
  // Set on a tokenization worker while another worker is idle: Submit may then run the model on
  // this thread.
  bool may_lead = false;

  // Out: [rows, width] in the order of the input, rows being sequences, or tokens for kTokens.
  // Undefined when the job failed.
  std::vector<float> values;
  int32_t width = 0;

  // Called exactly once for a job that Submit took, and gets the job back. It runs on an executor
  // thread of the model or, within Submit, on a submitting one: long work belongs elsewhere, as the
  // model waits. It must not call Stop(). Its exceptions are logged and go no further.
  std::function<void(std::unique_ptr<EncodeJob> job, Status status)> done;

  // Progress of the job: the scheduler's from Submit to `done`, so that it allocates nothing for a
  // job.
  struct Progress {
    std::atomic<uint32_t> rows_open{0};  // not answered; taking off the last calls `done`
    std::atomic<bool> failed{false};     // the rest need not be run
    Status status;                       // first failure; written under the scheduler's mutex
    Clock::time_point submitted;
    bool discounted = false;  // dead and no longer counted as waiting (admission.h)
    // In a backlog, under its mutex.
    uint32_t line = 0;  // its client's
    EncodeJob* next = nullptr;
    EncodeJob* chosen = nullptr;  // the next of those that give rows to the batch being filled
    uint32_t next_row = 0;        // first sequence in no batch yet
    uint32_t next_token = 0;      // where it begins in ids
    uint32_t take_rows = 0;       // rows for the batch being filled
    uint32_t take_tokens = 0;
  };
  Progress progress;

  size_t rows() const { return lengths.size(); }
  uint32_t row_count() const { return static_cast<uint32_t>(rows()); }
  // Floats of the result of sequences, or of tokens, before the given one.
  size_t ValueOffset(size_t row, size_t token) const {
    return (output == program::EncoderOutput::kTokens ? token : row) * static_cast<size_t>(width);
  }
};

// kInvalidArgument: no sequences, an empty one, or lengths that do not add up.
Status CheckJob(const EncodeJob& job);

}  // namespace penstock::sched
