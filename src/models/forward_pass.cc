#include "models/forward_pass.h"

#include <cmath>

namespace penstock {

void Workspace::Reserve(Backend* backend, size_t tokens) {
  backend_ = backend;
  if (tokens <= capacity_) return;
  const size_t hidden = static_cast<size_t>(weights_.hidden);
  Release();  // first, so that old and new are never there at once
  const size_t capacity = RoundUp(tokens, kTokenStep);
  const auto alloc = [&](size_t width) {
    return backend->Alloc(capacity * width, BufferUse::kActivations);
  };
  x_ = alloc(hidden);
  if (weights_.architecture->pre_norm) normed_ = alloc(hidden);
  qkv_ = alloc(3 * hidden);
  context_ = alloc(hidden);
  position_ids_.resize(capacity);
  capacity_ = capacity;  // last: what throws leaves none
}

void Workspace::Release() {
  capacity_ = 0;
  for (auto* buffer : {&x_, &normed_, &qkv_, &context_}) buffer->reset();
  position_ids_ = std::vector<int32_t>();  // ({} would keep the room)
}

uint64_t Workspace::bytes() const {
  uint64_t bytes = position_ids_.capacity() * sizeof(int32_t);
  for (const auto* buffer : {&x_, &normed_, &qkv_, &context_}) {
    if (*buffer != nullptr) bytes += (*buffer)->size() * sizeof(float);
  }
  return bytes;
}

void Workspace::NumberPositions(const PackedBatch& batch) {
  if (weights_.positions == nullptr) return;
  const bool padded = weights_.architecture->position_scheme == PositionScheme::kPadded;
  const int32_t padding = weights_.position_padding;
  for (size_t s = 0; s < batch.sequences(); ++s) {
    int32_t next = padded ? padding + 1 : 0;
    for (int32_t t = batch.offsets[s]; t < batch.offsets[s + 1]; ++t) {
      const size_t token = static_cast<size_t>(t);
      position_ids_[token] = padded && batch.ids[token] == padding ? padding : next++;
    }
  }
}

void Workspace::Attend(const EncoderLayer& layer, const float* input, const PackedBatch& batch,
                       std::span<const int32_t> chosen, float* out) {
  backend_->Linear(input, batch.tokens(), *layer.qkv, Activation::kNone, qkv_->data());
  AttentionArgs args;
  args.qkv = qkv_->data();
  args.out = out;
  args.offsets = batch.offsets;
  args.queries = chosen;
  args.heads = weights_.heads;
  args.head_size = weights_.hidden / weights_.heads;
  args.scale = 1.0f / std::sqrt(static_cast<float>(args.head_size));
  args.dtype = layer.qkv->dtype();
  args.rope_cos = layer.rope_cos;
  args.rope_sin = layer.rope_sin;
  args.rope_size = weights_.rope_size;
  args.rope_interleaved = weights_.rope_interleaved;
  args.relative_bias = weights_.relative_bias;
  args.bias_reach = weights_.bias_reach;
  args.window = layer.window;
  backend_->Attention(args);
}

float* FinishAttention(const EncoderWeights& weights, const EncoderLayer& layer, Backend* backend,
                       size_t rows, const float* context, float* x, float* normed) {
  const bool pre_norm = weights.architecture->pre_norm;
  float* y = pre_norm ? normed : x;
  // Each product's norm is that of what reads it next.
  backend->LinearAddNorm(context, rows, *layer.attention_out, x,
                         pre_norm ? layer.ff_norm : layer.attention_norm, pre_norm ? x : nullptr,
                         y);
  return y;
}

float* RunFeedForward(const EncoderWeights& weights, const EncoderLayer& layer,
                      const NormWeights& next_norm, Backend* backend, size_t rows, float* x,
                      float* normed) {
  const bool pre_norm = weights.architecture->pre_norm;
  FeedForwardArgs args;
  args.rows = rows;
  args.in = layer.ff_in.get();
  args.gate = layer.ff_gate.get();
  args.activation = weights.activation;
  args.out = layer.ff_out.get();
  args.residual = x;
  args.norm = pre_norm ? next_norm : layer.ff_norm;
  args.y = pre_norm ? normed : x;
  args.x = args.y;
  if (pre_norm) args.sum = x;
  backend->FeedForward(args);
  return args.y;
}

float* FinishLayer(const EncoderWeights& weights, size_t index, Backend* backend, size_t rows,
                   const float* context, float* x, float* normed) {
  const EncoderLayer& layer = weights.layers[index];
  FinishAttention(weights, layer, backend, rows, context, x, normed);
  const bool last = index + 1 == weights.layers.size();
  return RunFeedForward(weights, layer,
                        last ? weights.final_norm : weights.layers[index + 1].attention_norm,
                        backend, rows, x, normed);
}

void Workspace::Begin(const PackedBatch& batch) {
  NumberPositions(batch);
  EmbedArgs embed;
  embed.ids = batch.ids;
  if (weights_.type_rows > 1) embed.type_ids = batch.type_ids;
  if (weights_.positions != nullptr) {
    embed.position_ids = std::span<const int32_t>(position_ids_.data(), batch.tokens());
  }
  embed.words = weights_.words;
  embed.positions = weights_.positions;
  embed.types = weights_.types;
  embed.width = weights_.hidden;
  embed.norm = weights_.embed_norm;
  backend_->Embed(embed, x_->data());
}

const float* Workspace::AttentionInput(const EncoderLayer& layer, size_t tokens) {
  if (!weights_.architecture->pre_norm || layer.attention_norm.gamma == nullptr) return x_->data();
  backend_->Norm(x_->data(), tokens, weights_.hidden, layer.attention_norm, normed());
  return normed();
}

const float* Workspace::FeedForwardInput(const EncoderLayer& layer, const float* attention_input,
                                         const PackedBatch& batch) {
  Attend(layer, attention_input, batch, {}, context_->data());
  return FinishAttention(weights_, layer, backend_, batch.tokens(), context_->data(), x_->data(),
                         normed());
}

void Workspace::EndLayer(const EncoderLayer& layer, size_t tokens) {
  RunFeedForward(weights_, layer, {}, backend_, tokens, x_->data(), normed());
}

const float* Workspace::RunLayers(const PackedBatch& batch, size_t count) {
  Begin(batch);
  const float* input = x_->data();
  if (!weights_.layers.empty()) input = AttentionInput(weights_.layers[0], batch.tokens());
  for (size_t i = 0; i < count; ++i) {
    Attend(weights_.layers[i], input, batch, {}, context_->data());
    input =
        FinishLayer(weights_, i, backend_, batch.tokens(), context_->data(), x_->data(), normed());
  }
  return input;
}

const float* Workspace::Forward(const PackedBatch& batch) {
  return RunLayers(batch, weights_.layers.size());
}

void Workspace::ForwardChosen(const PackedBatch& batch, std::span<const int32_t> tokens,
                              float* context, float* x) {
  const size_t last = weights_.layers.size() - 1;
  const float* input = RunLayers(batch, last);
  Attend(weights_.layers[last], input, batch, tokens, context);
  PoolArgs rows;
  rows.x = x_->data();
  rows.offsets = batch.offsets;
  rows.skip = tokens;
  rows.width = weights_.hidden;
  rows.pooling = Pooling::kCls;
  rows.out = x;
  rows.out_stride = weights_.hidden;
  backend_->Pool(rows);
}

}  // namespace penstock
