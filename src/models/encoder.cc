#include "models/encoder.h"

#include <algorithm>
#include <cmath>

#include "models/weights.h"

namespace penstock {
namespace {

constexpr size_t kTokenStep = 128;  // buffers grow by whole steps
constexpr size_t kSequenceStep = 16;

size_t RoundUp(size_t n, size_t step) { return (n + step - 1) / step * step; }

}  // namespace

struct EncoderModel::Impl {
  ModelFolder folder;
  std::unique_ptr<EncoderWeights> weights;
};

EncoderModel::EncoderModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EncoderModel::~EncoderModel() = default;

Expected<std::unique_ptr<EncoderModel>> EncoderModel::Load(const ModelFolder& folder,
                                                           Backend* backend) {
  auto impl = std::make_unique<Impl>();
  impl->folder = folder;
  auto weights = LoadEncoderWeights(folder, backend);
  if (!weights.ok()) return weights.status().Annotate(folder.path);
  impl->weights = *std::move(weights);
  return std::unique_ptr<EncoderModel>(new EncoderModel(std::move(impl)));
}

const ModelFolder& EncoderModel::folder() const { return impl_->folder; }
int32_t EncoderModel::hidden_size() const { return impl_->weights->hidden; }
int32_t EncoderModel::embedding_size() const {
  const EncoderWeights& weights = *impl_->weights;
  if (!weights.dense.empty()) return weights.dense.back().linear->out();
  return weights.hidden * static_cast<int32_t>(std::max<size_t>(1, weights.pooling.size()));
}
int32_t EncoderModel::num_labels() const {
  return impl_->weights->head.empty() ? 0 : impl_->weights->head.back().linear->out();
}
int32_t EncoderModel::max_tokens() const { return impl_->folder.max_tokens; }
bool EncoderModel::uses_type_ids() const { return impl_->weights->type_rows > 1; }
uint64_t EncoderModel::parameters() const { return impl_->weights->parameters; }
uint64_t EncoderModel::weight_bytes() const { return impl_->weights->bytes; }

int32_t EncoderModel::OutputWidth(EncoderOutput output) const {
  switch (output) {
    case EncoderOutput::kPooled:
      return embedding_size();
    case EncoderOutput::kTokens:
      return hidden_size();
    case EncoderOutput::kLogits:
      return num_labels();
  }
  return 0;
}

// Buffers, in rows of one token unless said otherwise:
//   x       [hidden]        the residual stream, and after the last layer the hidden state
//   normed  [hidden]        pre-norm models: the norm of x that the next product reads
//   wide    [max(3 hidden, intermediate x (2 if gated))]   q, k, v, then the feed-forward's input
//   context [max(hidden, intermediate if gated)]           attention's output, then the gate's
//   pooled_a, pooled_b [sequences, widest step]            pooling and the dense steps, in turn
struct EncoderSession::Impl {
  explicit Impl(const EncoderModel* m) : model(m), weights(*m->impl_->weights) {}

  void Reserve(size_t tokens, size_t sequences);
  Status Check(const PackedBatch& batch, EncoderOutput output, std::span<float> out) const;
  void NumberPositions(const PackedBatch& batch);
  // Returns the last hidden state, [tokens, hidden].
  const float* Forward(const PackedBatch& batch);
  void Attend(const EncoderLayer& layer, const float* input, const PackedBatch& batch);
  // Leaves the product's input in the returned buffer: activation(W x), or its gated form.
  const float* FeedForwardInput(const EncoderLayer& layer, const float* input, size_t tokens);
  // Runs the steps over [rows, width]; returns the buffer the result is in.
  float* RunSteps(const std::vector<DenseStep>& steps, size_t rows, float* from);

  const EncoderModel* model;
  const EncoderWeights& weights;
  size_t token_capacity = 0;
  size_t sequence_capacity = 0;
  std::unique_ptr<Buffer> x, normed, wide, context, pooled_a, pooled_b;
  std::vector<int32_t> position_ids;
};

void EncoderSession::Impl::Reserve(size_t tokens, size_t sequences) {
  Backend* backend = weights.backend;
  const size_t hidden = static_cast<size_t>(weights.hidden);
  const size_t inner = static_cast<size_t>(weights.intermediate);
  const bool gated = weights.architecture->gated;
  if (tokens > token_capacity) {
    token_capacity = RoundUp(tokens, kTokenStep);
    x = backend->Alloc(token_capacity * hidden);
    if (weights.architecture->pre_norm) normed = backend->Alloc(token_capacity * hidden);
    wide = backend->Alloc(token_capacity * std::max(3 * hidden, gated ? 2 * inner : inner));
    context = backend->Alloc(token_capacity * (gated ? std::max(hidden, inner) : hidden));
    position_ids.resize(token_capacity);
  }
  if (sequences > sequence_capacity) {
    sequence_capacity = RoundUp(sequences, kSequenceStep);
    size_t width = hidden * std::max<size_t>(1, weights.pooling.size());
    for (const auto* steps : {&weights.dense, &weights.head}) {
      for (const DenseStep& step : *steps) {
        width = std::max(width, static_cast<size_t>(step.linear->out()));
      }
    }
    pooled_a = backend->Alloc(sequence_capacity * width);
    pooled_b = backend->Alloc(sequence_capacity * width);
  }
}

Status EncoderSession::Impl::Check(const PackedBatch& batch, EncoderOutput output,
                                   std::span<float> out) const {
  const size_t sequences = batch.sequences();
  if (sequences == 0) return Status::InvalidArgument("the batch is empty", "inputs");
  if (batch.offsets[0] != 0 || static_cast<size_t>(batch.offsets[sequences]) != batch.tokens()) {
    return Status::InvalidArgument("offsets do not cover the tokens", "offsets");
  }
  if (!batch.type_ids.empty() && batch.type_ids.size() != batch.tokens()) {
    return Status::InvalidArgument("one type id is needed for each token", "type_ids");
  }
  if (!batch.pool_skip.empty() && batch.pool_skip.size() != sequences) {
    return Status::InvalidArgument("one pool_skip is needed for each sequence", "pool_skip");
  }
  for (size_t s = 0; s < sequences; ++s) {
    const int32_t length = batch.length(s);
    if (length <= 0 || length > model->max_tokens()) {
      return Status::InvalidArgument("sequence " + std::to_string(s) + " has " +
                                         std::to_string(length) + " tokens, the model takes 1 to " +
                                         std::to_string(model->max_tokens()),
                                     "inputs");
    }
    if (!batch.pool_skip.empty() && (batch.pool_skip[s] < 0 || batch.pool_skip[s] >= length)) {
      return Status::InvalidArgument("pool_skip leaves nothing to pool", "pool_skip");
    }
  }
  for (int32_t id : batch.ids) {
    if (id < 0 || id >= weights.vocab) {
      return Status::InvalidArgument(
          "token id " + std::to_string(id) + " is not below " + std::to_string(weights.vocab),
          "inputs");
    }
  }
  // Models without a table of types ignore them.
  for (int32_t type : weights.type_rows > 1 ? batch.type_ids : std::span<const int32_t>()) {
    if (type < 0 || type >= weights.type_rows) {
      return Status::InvalidArgument(
          "type id " + std::to_string(type) + " is not below " + std::to_string(weights.type_rows),
          "type_ids");
    }
  }
  const size_t rows = output == EncoderOutput::kTokens ? batch.tokens() : sequences;
  const int32_t width = model->OutputWidth(output);
  if (width <= 0 || (output == EncoderOutput::kPooled && weights.pooling.empty())) {
    return Status::InvalidArgument("this model does not give that output", "model");
  }
  if (out.size() != rows * static_cast<size_t>(width)) {
    return Status::InvalidArgument("the output buffer has the wrong size", "out");
  }
  return Status::Ok();
}

void EncoderSession::Impl::NumberPositions(const PackedBatch& batch) {
  if (weights.positions == nullptr) return;
  const bool padded = weights.architecture->position_scheme == PositionScheme::kPadded;
  const int32_t padding = weights.position_padding;
  for (size_t s = 0; s < batch.sequences(); ++s) {
    int32_t next = padded ? padding + 1 : 0;
    for (int32_t t = batch.offsets[s]; t < batch.offsets[s + 1]; ++t) {
      const size_t token = static_cast<size_t>(t);
      position_ids[token] = padded && batch.ids[token] == padding ? padding : next++;
    }
  }
}

void EncoderSession::Impl::Attend(const EncoderLayer& layer, const float* input,
                                  const PackedBatch& batch) {
  Backend* backend = weights.backend;
  backend->Linear(input, batch.tokens(), *layer.qkv, Activation::kNone, wide->data());
  AttentionArgs args;
  args.qkv = wide->data();
  args.out = context->data();
  args.offsets = batch.offsets;
  args.heads = weights.heads;
  args.head_size = weights.hidden / weights.heads;
  args.scale = 1.0f / std::sqrt(static_cast<float>(args.head_size));
  args.rope_cos = layer.rope_cos;
  args.rope_sin = layer.rope_sin;
  args.rope_size = weights.rope_size;
  args.rope_interleaved = weights.rope_interleaved;
  args.relative_bias = weights.relative_bias;
  args.bias_reach = weights.bias_reach;
  args.window = layer.window;
  backend->Attention(args);
}

const float* EncoderSession::Impl::FeedForwardInput(const EncoderLayer& layer, const float* input,
                                                    size_t tokens) {
  Backend* backend = weights.backend;
  if (!weights.architecture->gated) {
    backend->Linear(input, tokens, *layer.ff_in, weights.activation, wide->data());
    return wide->data();
  }
  backend->Linear(input, tokens, *layer.ff_in, Activation::kNone, wide->data());
  backend->Gate(wide->data(), tokens, layer.ff_out->in(), weights.activation, context->data());
  return context->data();
}

const float* EncoderSession::Impl::Forward(const PackedBatch& batch) {
  Backend* backend = weights.backend;
  const size_t tokens = batch.tokens();
  NumberPositions(batch);
  EmbedArgs embed;
  embed.ids = batch.ids;
  if (weights.type_rows > 1) embed.type_ids = batch.type_ids;
  if (weights.positions != nullptr) {
    embed.position_ids = std::span<const int32_t>(position_ids.data(), tokens);
  }
  embed.words = weights.words;
  embed.positions = weights.positions;
  embed.types = weights.types;
  embed.width = weights.hidden;
  embed.norm = weights.embed_norm;
  backend->Embed(embed, x->data());

  if (!weights.architecture->pre_norm) {
    for (const EncoderLayer& layer : weights.layers) {
      Attend(layer, x->data(), batch);
      backend->LinearAddNorm(context->data(), tokens, *layer.attention_out, x->data(),
                             layer.attention_norm, nullptr, x->data());
      const float* inner = FeedForwardInput(layer, x->data(), tokens);
      backend->LinearAddNorm(inner, tokens, *layer.ff_out, x->data(), layer.ff_norm, nullptr,
                             x->data());
    }
    return x->data();
  }
  // Pre-norm: each product's norm is that of what reads it next.
  const std::vector<EncoderLayer>& layers = weights.layers;
  const float* input = x->data();
  if (!layers.empty() && layers[0].attention_norm.gamma != nullptr) {
    backend->Norm(x->data(), tokens, weights.hidden, layers[0].attention_norm, normed->data());
    input = normed->data();
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    Attend(layers[i], input, batch);
    backend->LinearAddNorm(context->data(), tokens, *layers[i].attention_out, x->data(),
                           layers[i].ff_norm, x->data(), normed->data());
    const float* inner = FeedForwardInput(layers[i], normed->data(), tokens);
    const NormWeights& next =
        i + 1 < layers.size() ? layers[i + 1].attention_norm : weights.final_norm;
    backend->LinearAddNorm(inner, tokens, *layers[i].ff_out, x->data(), next, x->data(),
                           normed->data());
    input = normed->data();
  }
  return input;
}

float* EncoderSession::Impl::RunSteps(const std::vector<DenseStep>& steps, size_t rows,
                                      float* from) {
  for (const DenseStep& step : steps) {
    float* to = from == pooled_a->data() ? pooled_b->data() : pooled_a->data();
    weights.backend->Linear(from, rows, *step.linear, step.activation, to);
    if (step.norm.gamma != nullptr) {
      weights.backend->Norm(to, rows, step.linear->out(), step.norm, to);
    }
    from = to;
  }
  return from;
}

EncoderSession::EncoderSession(const EncoderModel* model) : impl_(std::make_unique<Impl>(model)) {}
EncoderSession::~EncoderSession() = default;

void EncoderSession::Reserve(size_t tokens, size_t sequences) { impl_->Reserve(tokens, sequences); }

Status EncoderSession::Run(const PackedBatch& batch, EncoderOutput output, std::span<float> out) {
  PENSTOCK_RETURN_IF_ERROR(impl_->Check(batch, output, out));
  impl_->Reserve(batch.tokens(), batch.sequences());
  const EncoderWeights& weights = impl_->weights;
  Backend* backend = weights.backend;
  const float* hidden = impl_->Forward(batch);
  if (output == EncoderOutput::kTokens) {
    backend->CopyOut(hidden, out.data(), out.size());
    return Status::Ok();
  }
  const size_t sequences = batch.sequences();
  PoolArgs pool;
  pool.x = hidden;
  pool.offsets = batch.offsets;
  pool.width = weights.hidden;
  float* pooled = impl_->pooled_a->data();
  if (output == EncoderOutput::kLogits) {
    pool.pooling = weights.head_pooling;
    pool.out = pooled;
    pool.out_stride = weights.hidden;
    backend->Pool(pool);
    pooled = impl_->RunSteps(weights.head, sequences, pooled);
  } else {
    pool.skip = batch.pool_skip;
    pool.out_stride = weights.hidden * static_cast<int32_t>(weights.pooling.size());
    for (size_t i = 0; i < weights.pooling.size(); ++i) {
      pool.pooling = weights.pooling[i];
      pool.out = pooled + i * static_cast<size_t>(weights.hidden);
      backend->Pool(pool);
    }
    pooled = impl_->RunSteps(weights.dense, sequences, pooled);
  }
  backend->CopyOut(pooled, out.data(), out.size());
  return Status::Ok();
}

std::span<float> FinishEmbedding(std::span<float> row, int32_t dimensions, bool normalize) {
  if (dimensions > 0 && static_cast<size_t>(dimensions) < row.size()) {
    row = row.first(static_cast<size_t>(dimensions));
  }
  if (!normalize) return row;
  double squares = 0;
  for (float v : row) squares += static_cast<double>(v) * v;
  if (squares > 0) {
    const double inverse = 1.0 / std::sqrt(squares);
    for (float& v : row) v = static_cast<float>(v * inverse);
  }
  return row;
}

}  // namespace penstock
