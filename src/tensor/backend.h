// The Backend seam: a processor that holds packed weights and runs the coarse operations models
// are made of. Models speak to this interface only.
//
// Ownership: a Backend owns its threads and memory; Buffers and PackedLinears are owned by the
// caller and must be destroyed before their Backend. Any thread may call; operations of several
// callers run one after the other (what they wait is counted, see common/waiting_lock.h). The
// backend spreads each over its own threads and returns when it is done.
//
// Numbers: every output row of every operation is a function of that row's inputs (for attention:
// of its sequence) alone, to the bit, whatever the number of rows or threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "common/dtype.h"
#include "tensor/compute_gate.h"

namespace penstock {

enum class Activation { kNone, kGelu, kGeluTanh, kRelu, kSilu, kTanh };
enum class Pooling { kCls, kMean, kMax, kLastToken, kMeanSqrtLen, kWeightedMean };

// A float array in the backend's memory, 64-byte aligned.
class Buffer {
 public:
  virtual ~Buffer() = default;
  float* data() const { return data_; }
  size_t size() const { return size_; }

 protected:
  float* data_ = nullptr;
  size_t size_ = 0;  // floats
};

// A weight matrix [out, in] and its bias, in the layout the backend's GEMM reads.
class PackedLinear {
 public:
  virtual ~PackedLinear() = default;
  int32_t in() const { return in_; }
  int32_t out() const { return out_; }
  DType dtype() const { return dtype_; }
  virtual uint64_t bytes() const = 0;

  // What is multiplied by after this one, if the model says: a backend may fetch it ahead. Must
  // live as long as this is used.
  const PackedLinear* next() const { return next_; }
  void set_next(const PackedLinear* next) { next_ = next; }

 protected:
  const PackedLinear* next_ = nullptr;
  int32_t in_ = 0;
  int32_t out_ = 0;
  DType dtype_ = DType::kF32;
};

// Scale and shift of a layer norm, [width] each; beta may be null. `gamma` null: no norm at all.
struct NormWeights {
  const float* gamma = nullptr;
  const float* beta = nullptr;
  float epsilon = 0;
};

struct EmbedArgs {
  std::span<const int32_t> ids;           // [tokens]
  std::span<const int32_t> type_ids;      // [tokens], or empty: all 0
  std::span<const int32_t> position_ids;  // [tokens], or empty where positions is null
  const float* words = nullptr;           // [vocab, width]
  const float* positions = nullptr;       // [rows, width], or null
  const float* types = nullptr;           // [types, width], or null
  int32_t width = 0;
  NormWeights norm;
};

struct PoolArgs {
  const float* x = nullptr;          // [tokens, width]
  std::span<const int32_t> offsets;  // [sequences + 1]
  std::span<const int32_t> skip;     // [sequences] leading tokens left out, or empty: none
  int32_t width = 0;
  Pooling pooling = Pooling::kMean;
  float* out = nullptr;  // [sequences, out_stride], the first `width` of each row
  int32_t out_stride = 0;
};

struct AttentionArgs {
  const float* qkv = nullptr;        // [tokens, 3 * heads * head_size]: q, k, v side by side
  float* out = nullptr;              // [tokens, heads * head_size], or [sequences, ...]: see below
  std::span<const int32_t> offsets;  // [sequences + 1]
  // One token of each sequence, counted from its first, whose result alone is wanted; empty: all.
  std::span<const int32_t> queries;
  int32_t heads = 0;
  int32_t head_size = 0;
  float scale = 1;  // positive
  // Of the model's products. Where it is not kF32, attention's two may be computed in bf16.
  DType dtype = DType::kF32;
  // Rotary tables [positions, rope_size / 2] of cos and sin, or null. Rotates the first rope_size
  // dimensions of q and k: pairs (i, i + rope_size / 2), or (2i, 2i + 1) when interleaved.
  const float* rope_cos = nullptr;
  const float* rope_sin = nullptr;
  int32_t rope_size = 0;
  bool rope_interleaved = false;
  // Added to the scaled score of key j for query i: bias[head * (2 * bias_reach + 1) +
  // clamp(j - i, -reach, reach) + reach]. Null: none.
  const float* relative_bias = nullptr;
  int32_t bias_reach = 0;
  // Keys with |i - j| <= window are seen; 0: all.
  int32_t window = 0;
};

class Backend;

// Work that can be cut into independent pieces.
class LaneWork {
 public:
  virtual ~LaneWork() = default;
  // Piece `index`; `backend`'s operations run on the calling thread alone. `lane` < lanes() is not
  // used by two pieces at once: buffers can be kept by it.
  virtual void RunPiece(size_t index, size_t lane, Backend* backend) = 0;
};

// y = norm(sum), sum = residual + out(activation(in(x)) [* gate(x)]): the feed-forward of a layer.
// Without a norm y = sum. y may be residual; with `sum` non-null the un-normed sum is kept there,
// which may be residual too.
struct FeedForwardArgs {
  const float* x = nullptr;  // [rows, in->in()]
  size_t rows = 0;
  const PackedLinear* in = nullptr;
  const PackedLinear* gate = nullptr;  // as `in`, and packed with its factors; null: none
  Activation activation = Activation::kNone;
  const PackedLinear* out = nullptr;  // out->in() == in->out()
  const float* residual = nullptr;    // [rows, out->out()]
  NormWeights norm;
  float* sum = nullptr;
  float* y = nullptr;
};

// What a buffer is for. Kept apart in memory, so that the room of activations can go back to the
// system while the weights stay.
enum class BufferUse { kWeights, kActivations };

class Backend {
 public:
  virtual ~Backend() = default;
  // Whose turn it is to run batches here, over all models; who calls without a turn only waits for
  // single operations.
  ComputeGate& gate() { return gate_; }

  // "cpu (avx512, 2 threads)".
  virtual std::string name() const = 0;

  // Chooses the processors of the calling thread, for one whose work is to run models here.
  virtual void PlaceCaller() const {}

  // How many pieces RunLanes works on at once. A backend that is one device has one lane.
  virtual size_t lanes() const { return 1; }
  // Activations of a piece that its lane keeps near; 0: makes no difference.
  virtual size_t lane_cache_bytes() const { return 0; }
  // Runs pieces 0 .. count - 1, begun in this order, and returns when all are done.
  virtual void RunLanes(size_t count, LaneWork* work) {
    for (size_t i = 0; i < count; ++i) work->RunPiece(i, 0, this);
  }

  // Makes room beforehand for Attention over sequences of up to `length` tokens, which then
  // allocates nothing; nor do the other operations.
  virtual void Reserve(size_t length, size_t head_size) = 0;
  // Bytes that Reserve and the operations have made room in, shared by all who run models here.
  virtual uint64_t ScratchBytes() const = 0;
  // Counts a user of the scratch in, and out: the last one's release gives it back to the system.
  // Returns how many bytes that were. Operations make room again as they need it.
  virtual void HoldScratch() = 0;
  virtual uint64_t ReleaseScratch() = 0;

  // Uninitialised floats; never null. Running out of memory throws std::bad_alloc, as it does in
  // Reserve and the operations; what they had made before is as good as it was.
  virtual std::unique_ptr<Buffer> Alloc(size_t floats, BufferUse use) = 0;
  virtual void CopyIn(const float* host, float* device, size_t floats) = 0;
  virtual void CopyOut(const float* device, float* host, size_t floats) = 0;
  // weight: host [out, in] row-major; bias: host [out] or null. dtype: that of the product's two
  // operands, kF32, kBf16 or kI8; activations go in and come out as f32 all the same.
  // column_factors: host [in], positive, or null: all 1. kI8 only: column k of the weight is
  // multiplied by its factor and x's divided by it, before both are rounded.
  virtual std::unique_ptr<PackedLinear> Pack(const float* weight, const float* bias, int32_t out,
                                             int32_t in, DType dtype,
                                             const float* column_factors) = 0;
  std::unique_ptr<PackedLinear> Pack(const float* weight, const float* bias, int32_t out,
                                     int32_t in, DType dtype) {
    return Pack(weight, bias, out, in, dtype, nullptr);
  }
  // kBf16 where this processor multiplies it natively, else kF32.
  virtual DType preferred_dtype() const { return DType::kF32; }

  // x[t] = norm(words[id] + positions[...] + types[type]).
  virtual void Embed(const EmbedArgs& args, float* x) = 0;
  // y[rows, out] = activation(x[rows, in] W^T + bias).
  virtual void Linear(const float* x, size_t rows, const PackedLinear& weight,
                      Activation activation, float* y) = 0;
  // sum = residual + x W^T + bias; y = norm(sum) (y = sum without a norm). y may be residual.
  // With `sum` non-null the un-normed sum is kept there too (pre-norm models); sum may be residual.
  virtual void LinearAddNorm(const float* x, size_t rows, const PackedLinear& weight,
                             const float* residual, const NormWeights& norm, float* sum,
                             float* y) = 0;
  virtual void FeedForward(const FeedForwardArgs& args) = 0;
  virtual void Attention(const AttentionArgs& args) = 0;
  // y = norm(x), rows of `width`; y may be x.
  virtual void Norm(const float* x, size_t rows, int32_t width, const NormWeights& norm,
                    float* y) = 0;
  virtual void Pool(const PoolArgs& args) = 0;

 private:
  ComputeGate gate_;
};

}  // namespace penstock
