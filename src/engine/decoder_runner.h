// DecoderRunner: a decoder that embeds or scores (models/embedding_decoder.h), as the encoders'
// scheduler sees it.
//
// A batch goes through the decoder in steps of up to kRows tokens: whole sequences as they fit, a
// longer one in pieces. Where an output needs the last token's state alone, whole blocks of keys
// and values stay in a prefix cache, so that what texts begin with (an instruction, the prompt and
// the query of a rerank request) is computed once. Bits do not depend on any of that
// (program/program_run.h). A model that attends in both directions takes a sequence in one step,
// and keeps nothing.
//
// Between steps other engines may have the processor (BatchPause); while they use it, steps are of
// kSharedRows, so that none waits long. A sequence whose client has left, or whose time is over, is
// dropped between steps.
//
// Cache, activations and head are made by the first batch, and go back with ReleaseMemory.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/status.h"
#include "kv/block_pool.h"
#include "kv/prefix_cache.h"
#include "kv/sequence.h"
#include "models/embedding_decoder.h"
#include "numbers/dtype.h"
#include "program/backend.h"
#include "program/encoder_runner.h"
#include "program/program_run.h"
#include "threads/request_context.h"

namespace penstock::engine {

class DecoderRunner final : public program::EncoderRunner {
 public:
  static constexpr int32_t kRows = 512;
  static constexpr int32_t kSharedRows = 64;
  // Of keys and values that no sequence uses any more.
  static constexpr int64_t kCachedBytesMax = int64_t{128} << 20;
  // The most sequences of a step on a device, which allocates all blocks of the cache, used or not.
  static constexpr int32_t kDeviceSequences = 64;
  static int32_t SequencesOfStep(const program::Backend& backend, int32_t rows) {
    return backend.is_host() ? rows : std::min(rows, kDeviceSequences);
  }
  // Blocks that they need at most: each ends in one of its own.
  static int32_t BlocksOfStep(const program::Backend& backend, int32_t rows) {
    const int32_t whole = backend.is_host() ? 0 : BlocksOfTokens(rows);
    return whole + SequencesOfStep(backend, rows);
  }

  // `backend` must outlive the runner. cache_type: as PrepareOptions.
  DecoderRunner(std::shared_ptr<const models::EmbeddingDecoder> model,
                const program::Backend* backend, numbers::DType cache_type);
  ~DecoderRunner() override;

  int32_t OutputWidth(program::EncoderOutput output) const override {
    return model_->OutputWidth(output);
  }
  Status Run(const program::PackedBatch& batch, program::EncoderOutput output,
             std::span<float* const> sinks) override;
  void PlaceExecutor() const override { backend_->PlaceCaller(); }
  uint64_t HeldBytes() const override;
  uint64_t ReleaseMemory() override;

  // Tokens that were not computed since their keys and values were cached.
  uint64_t cached_tokens() const { return cached_tokens_.load(std::memory_order_relaxed); }

 private:
  struct Memory;  // what ReleaseMemory gives back
  class BatchRun;

  Status Prepare(int32_t rows);

  const std::shared_ptr<const models::EmbeddingDecoder> model_;
  const program::Backend* const backend_;
  const numbers::DType cache_type_;
  // Taken once a batch; another thread has it only to release memory.
  mutable std::mutex mutex_;
  std::unique_ptr<Memory> memory_;
  Clock::time_point shared_until_;  // others were seen at the gate
  std::atomic<uint64_t> held_bytes_{0};
  std::atomic<uint64_t> cached_tokens_{0};
};

}  // namespace penstock::engine
