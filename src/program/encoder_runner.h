// EncoderRunner: an encoder model as the scheduler sees it; tests use a fake.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "program/packed_batch.h"

namespace penstock::program {

// The output of a forward pass.
enum class EncoderOutput {
  kPooled,  // [sequences, embedding_size]: pooled, dense modules applied; not normalised
  kTokens,  // [tokens, hidden_size]: the last hidden state
  kLogits,  // [sequences, num_labels]: raw, before softmax or sigmoid
};
inline constexpr size_t kEncoderOutputs = 3;

// What a runner may ask between the parts of a long batch.
class BatchPause {
 public:
  virtual ~BatchPause() = default;
  // Lets other engines have the processor. Returns when it is the batch's turn again; true: others
  // had one.
  virtual bool Pause() = 0;
  // Whether anybody still waits for the sequence. False: its work may be left out, and its sink
  // unwritten; asked once more of such a sequence it would be counted twice.
  virtual bool Wanted(size_t sequence) = 0;
};

// Run is used by one thread at a time; the rest may be called from any thread at any time. An
// exception of Run fails the batch, as an error does; the runner must be able to go on with the
// next.
class EncoderRunner {
 public:
  virtual ~EncoderRunner() = default;
  // Floats of a row of the result; 0: the output is not offered.
  virtual int32_t OutputWidth(EncoderOutput output) const = 0;
  // sinks[s] gets the result of sequence s: OutputWidth floats, or that many for each token.
  virtual Status Run(const PackedBatch& batch, EncoderOutput output,
                     std::span<float* const> sinks) = 0;

  // As ProgramRun::device_seconds. By the thread that called Run.
  virtual double device_seconds() const { return 0; }

  // Sets the pause that the next batches use between their parts; null: they run without a pause.
  // Called by the thread that calls Run.
  void SetPause(BatchPause* pause) { pause_ = pause; }

  // Binds the calling thread, which runs batches until it ends or is bound to others, to its
  // processors.
  virtual void PlaceExecutor() const {}

  // Bytes of activation memory that ReleaseMemory would give back to the system.
  virtual uint64_t HeldBytes() const { return 0; }
  // What that is, about, once batches of that size have run; 0: not known.
  virtual uint64_t BytesFor(size_t /*tokens*/, size_t /*sequences*/) const { return 0; }
  // Gives it back and returns the number of bytes; during Run does nothing and returns 0. The next
  // Run allocates again. For a model that has been idle for a while.
  virtual uint64_t ReleaseMemory() { return 0; }

 protected:
  BatchPause* pause() const { return pause_; }

 private:
  BatchPause* pause_ = nullptr;
};

}  // namespace penstock::program
