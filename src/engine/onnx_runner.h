// OnnxRunner: an encoder that is an ONNX file, computed by OpenVINO, as the encoders' scheduler
// sees it. A fallback for architectures that Penstock does not know: slower than its own programs.
//
// OpenVINO takes rows of one length, so a batch is run in groups of sequences of similar length,
// the longest first, padded to the longest one's step (kStep). A group has 1, 2, 4, ...
// kGroupRows sequences, so that few shapes occur: OpenVINO prepares itself for each. What is padded
// is at most a quarter of a group, or kStep - 1 tokens a sequence. Between groups other engines may
// have the processor (BatchPause), and sequences that nobody waits for any more are left out.
//
// The bits of a result may depend on what shares its group.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "families/model_folder.h"
#include "models/weights.h"
#include "openvino/tensor_model.h"
#include "program/backend.h"
#include "program/encoder_runner.h"

namespace penstock::engine {

// What a group of so many tokens, padding counted, takes while it is computed, about.
uint64_t OnnxBytesFor(size_t tokens, int32_t hidden);

// The model, shared by its runners. Immutable.
class OnnxEncoder {
 public:
  // Opens folder.onnx. kUnsupported names an input that is not known, or an output that is missing
  // or of another form; kUnavailable: OpenVINO is not installed.
  static Expected<std::unique_ptr<OnnxEncoder>> Load(const families::ModelFolder& folder,
                                                     program::Backend* backend);

  const std::string& backend_name() const { return backend_name_; }
  int32_t hidden_size() const { return hidden_; }
  int32_t embedding_size() const { return OutputWidth(program::EncoderOutput::kPooled); }
  int32_t num_labels() const { return OutputWidth(program::EncoderOutput::kLogits); }
  int32_t max_tokens() const { return max_tokens_; }
  bool uses_type_ids() const { return type_ids_.has_value(); }
  uint64_t weight_bytes() const { return file_bytes_ + head_.bytes; }
  int32_t OutputWidth(program::EncoderOutput output) const;
  // Of a runner, about: OpenVINO does not say what it takes.
  uint64_t BytesFor(size_t tokens) const { return OnnxBytesFor(std::min(tokens, most_), hidden_); }

 private:
  friend class OnnxRunner;
  OnnxEncoder() = default;
  Status FindInputs(const openvino::TensorModel& model);
  Status FindOutput(const openvino::TensorModel& model, const families::ModelFolder& folder);

  program::Backend* backend_ = nullptr;
  std::string backend_name_;  // "openvino 2026.4.1 (2 threads)"
  std::unique_ptr<openvino::CompiledModel> compiled_;
  std::optional<size_t> ids_, mask_, type_ids_, positions_;  // numbers of inputs
  size_t output_ = 0;                                        // its number
  bool logits_ = false;                                      // it has them; else hidden states
  int32_t hidden_ = 0;
  int32_t labels_ = 0;
  int32_t vocabulary_ = 0;
  int32_t types_ = 0;
  int32_t pad_ = 0;
  int32_t max_tokens_ = 0;
  size_t most_ = 0;  // tokens of a group
  uint64_t file_bytes_ = 0;
  models::EncoderWeights head_;  // of hidden states: pooling and dense modules
  program::Program head_program_;
};

class OnnxRunner final : public program::EncoderRunner {
 public:
  static constexpr size_t kStep = 16;       // tokens; of lengths over 256: 64
  static constexpr size_t kGroupRows = 32;  // sequences
  static constexpr size_t kGroupTokens = 4096;

  explicit OnnxRunner(std::shared_ptr<const OnnxEncoder> model);
  ~OnnxRunner() override;

  int32_t OutputWidth(program::EncoderOutput output) const override {
    return model_->OutputWidth(output);
  }
  Status Run(const program::PackedBatch& batch, program::EncoderOutput output,
             std::span<float* const> sinks) override;
  void PlaceExecutor() const override { model_->backend_->PlaceCaller(); }
  uint64_t HeldBytes() const override { return held_.load(std::memory_order_relaxed); }
  uint64_t BytesFor(size_t tokens, size_t sequences) const override;
  uint64_t ReleaseMemory() override;

 private:
  struct Memory;  // what ReleaseMemory gives back
  class BatchRun;

  const std::shared_ptr<const OnnxEncoder> model_;
  std::mutex mutex_;  // taken once a batch; another thread has it only to release memory
  std::unique_ptr<Memory> memory_;
  std::atomic<uint64_t> held_{0};
};

}  // namespace penstock::engine
