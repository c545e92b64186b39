// One request's sequences on their way through the encoder scheduler.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "common/cancel.h"
#include "common/status.h"
#include "models/encoder.h"

namespace penstock {

struct EncodeJob {
  // In, set by the caller and left as they are. Sequences laid end to end, `lengths` says where
  // each ends: the sum of lengths == ids.size(), every length > 0.
  std::vector<int32_t> ids;
  std::vector<int32_t> type_ids;  // empty: all 0, or as long as ids
  std::vector<int32_t> lengths;
  // Leading tokens of each sequence that pooling leaves out; empty: none, or as long as lengths.
  std::vector<int32_t> pool_skip;
  EncoderOutput output = EncoderOutput::kPooled;
  RequestContext context;
  // The thread that submits may run the model itself, if nobody else wants it: it is nobody's io
  // thread, and others can take over what it does meanwhile.
  bool may_lead = false;

  // Out: [rows, width] in the order of the input, rows being sequences, or tokens for kTokens.
  // Undefined when the job failed.
  std::vector<float> values;
  int32_t width = 0;

  // Called exactly once for a job that Submit took, and gets the job back. It runs on an executor
  // thread of the model or, within Submit, on a submitting one: what takes long is to be done
  // elsewhere, or the model waits. It must not call Stop(). What it throws is logged and goes no
  // further.
  std::function<void(std::unique_ptr<EncodeJob> job, Status status)> done;

  // How far the job has come: the scheduler's own from Submit to `done`, so that it allocates
  // nothing for a job.
  struct Progress {
    std::atomic<uint32_t> rows_open{0};  // not answered; who takes the last one off calls `done`
    std::atomic<bool> failed{false};     // the rest need not be run
    Status status;                       // first failure; written under the scheduler's mutex
    Clock::time_point submitted;
    bool discounted = false;  // dead and no longer counted as waiting (admission.h)
    // In a backlog, under its mutex.
    EncodeJob* next = nullptr;
    uint32_t next_row = 0;    // first sequence in no batch yet
    uint32_t next_token = 0;  // where it begins in ids
    uint32_t take_rows = 0;   // what the batch being filled gets
    uint32_t take_tokens = 0;
  };
  Progress progress;

  size_t rows() const { return lengths.size(); }
  // Floats of the result of sequences, or of tokens, before the given one.
  size_t ValueOffset(size_t row, size_t token) const {
    return (output == EncoderOutput::kTokens ? token : row) * static_cast<size_t>(width);
  }
};

// The model as the scheduler sees it; tests put a fake here. Run is used by one thread at a time;
// the rest may be called from any thread at any time. What Run throws fails the batch, as an error
// does; the runner must be able to go on with the next.
class EncoderRunner {
 public:
  virtual ~EncoderRunner() = default;
  virtual int32_t OutputWidth(EncoderOutput output) const = 0;
  // As EncoderSession::Run: sinks[s] gets the result of sequence s.
  virtual Status Run(const PackedBatch& batch, EncoderOutput output,
                     std::span<float* const> sinks) = 0;

  // Chooses the processors of the calling thread, which runs batches for as long as it lives.
  virtual void PlaceExecutor() const {}

  // Bytes of activation memory that ReleaseMemory would give back to the system.
  virtual uint64_t HeldBytes() const { return 0; }
  // Gives them back and says how many they were; 0, and nothing happens, while Run is under way.
  // The next Run makes its buffers again. For when the model has been idle for a while.
  virtual uint64_t ReleaseMemory() { return 0; }
};

}  // namespace penstock
