// The forward pass of an encoder: embeddings and layers, without what comes after pooling.
//
// A Workspace owns the activations of one pass at a time and belongs to one thread; the weights it
// reads are shared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "models/weights.h"
#include "tensor/backend.h"
#include "tensor/packed_batch.h"

namespace penstock {

// Buffers grow by whole steps.
constexpr size_t kTokenStep = 128;
constexpr size_t RoundUp(size_t n, size_t step) { return (n + step - 1) / step * step; }

// The end of a layer's attention, from the heads' results `context` on, for `rows` rows. x: the
// residual stream; normed: pre-norm models only. Returns the one of the two that ff_in reads.
float* FinishAttention(const EncoderWeights& weights, const EncoderLayer& layer, Backend* backend,
                       size_t rows, const float* context, float* x, float* normed);
// A layer's feed-forward on what FinishAttention returned; next_norm: pre-norm models only, that of
// what reads the result. Returns x or normed: the result.
float* RunFeedForward(const EncoderWeights& weights, const EncoderLayer& layer,
                      const NormWeights& next_norm, Backend* backend, size_t rows, float* x,
                      float* normed);
// Both, for layer `index`.
float* FinishLayer(const EncoderWeights& weights, size_t index, Backend* backend, size_t rows,
                   const float* context, float* x, float* normed);

// The activations of one forward pass and the pass itself, on one backend or one lane of it.
//
// Buffers, in rows of one token:
//   x       [hidden]        the residual stream, and after the last layer the hidden state
//   normed  [hidden]        pre-norm models: the norm of x that the next product reads
//   qkv     [3 hidden]
//   context [hidden]        attention's output
class Workspace {
 public:
  explicit Workspace(const EncoderWeights& weights) : weights_(weights) {}

  // The next Forward runs on `backend`, with at most `tokens` tokens.
  void Reserve(Backend* backend, size_t tokens);
  void Release();
  uint64_t bytes() const;
  // Returns the last hidden state, [tokens, hidden].
  const float* Forward(const PackedBatch& batch);
  // All but the end of the last layer (FinishLayer), for one token of each sequence alone: what
  // FinishLayer takes goes to context[sequences, hidden] and x[sequences, hidden].
  void ForwardChosen(const PackedBatch& batch, std::span<const int32_t> tokens, float* context,
                     float* x);

  // The same step by step, while the layers come up: Begin, then the other three for each layer.
  // `layer` has what the step needs. Each gives its result, [tokens, hidden].
  void Begin(const PackedBatch& batch);
  const float* AttentionInput(const EncoderLayer& layer, size_t tokens);
  const float* FeedForwardInput(const EncoderLayer& layer, const float* attention_input,
                                const PackedBatch& batch);
  void EndLayer(const EncoderLayer& layer, size_t tokens);

 private:
  float* normed() const { return normed_ == nullptr ? nullptr : normed_->data(); }
  void NumberPositions(const PackedBatch& batch);
  // Embeds, and runs the first `count` layers; returns what the next one reads.
  const float* RunLayers(const PackedBatch& batch, size_t count);
  // Attention of all tokens, or of those chosen, to `out`.
  void Attend(const EncoderLayer& layer, const float* input, const PackedBatch& batch,
              std::span<const int32_t> chosen, float* out);

  const EncoderWeights& weights_;
  Backend* backend_ = nullptr;
  size_t capacity_ = 0;
  std::unique_ptr<Buffer> x_, normed_, qkv_, context_;
  std::vector<int32_t> position_ids_;
};

}  // namespace penstock
