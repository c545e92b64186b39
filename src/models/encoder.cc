#include "models/encoder.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>

#include "models/forward_pass.h"
#include "models/weights.h"

namespace penstock {
namespace {

constexpr size_t kSequenceStep = 16;

// Share of a thread's cache for the activations of a group that it takes through the layers alone;
// weight panels pass through the rest.
constexpr double kGroupShare = 0.75;
constexpr size_t kGroupTokensMin = 48;  // below, reading the weights would cost more than it saves
constexpr size_t kGroupTokensMax = 256;
// Groups are worked on side by side if the last thread ends at most this much after the mean.
constexpr double kUnevenMax = 1.1;

}  // namespace

struct EncoderModel::Impl {
  ModelFolder folder;
  std::unique_ptr<EncoderWeights> weights;
};

EncoderModel::EncoderModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EncoderModel::~EncoderModel() = default;

Expected<std::unique_ptr<EncoderModel>> EncoderModel::Load(const ModelFolder& folder,
                                                           Backend* backend,
                                                           const ProductTypes& types) {
  auto impl = std::make_unique<Impl>();
  impl->folder = folder;
  auto weights = LoadEncoderWeights(folder, backend, types);
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

// A batch is worked on in one of two ways; the bits are the same.
//   lanes   cut into groups of whole sequences, each taken through all layers by one thread: its
//           activations stay in that thread's L2 and no thread waits for another between layers
//   whole   one operation after the other, each spread over the threads: for a batch that does not
//           cut into even groups, above all a single text
struct EncoderSession::Impl final : public LaneWork {
  explicit Impl(const EncoderModel* m);
  ~Impl() override { Release(); }

  // What throws leaves less room than there was, and the next Run makes it again.
  void Reserve(size_t tokens, size_t sequences);
  uint64_t Release();  // bytes
  void ReserveTokens(size_t tokens);
  void ReserveRows(size_t rows);  // of pooled vectors
  void CountHeld();
  std::array<std::unique_ptr<Buffer>*, 5> sequence_buffers() {
    return {&pooled_a, &pooled_b, &chosen_context, &chosen_x, &chosen_normed};
  }
  Status Check(const PackedBatch& given, EncoderOutput wanted,
               std::span<float* const> given_sinks) const;
  void Plan(const PackedBatch& given);
  // Fills `chosen`.
  void Choose();
  bool GroupsAreEven(const PackedBatch& given);
  void RunPiece(size_t index, size_t lane, Backend* backend) override;
  // Runs sequences [begin, end) and puts pooled rows or the hidden state in their place.
  void RunRange(const PackedBatch& part, size_t begin, Workspace* workspace, Backend* backend);
  // Runs the steps over rows of `from`; returns the buffer the result is in.
  float* RunSteps(const std::vector<DenseStep>& steps, size_t rows, float* from);

  struct Group {
    size_t begin = 0;  // sequences
    size_t end = 0;
    size_t tokens = 0;
  };
  struct Lane {
    explicit Lane(const EncoderWeights& weights) : workspace(weights) {}
    Workspace workspace;
    std::vector<int32_t> offsets;  // of the group, from 0
    size_t load = 0;
  };

  const EncoderModel* model;
  const EncoderWeights& weights;
  size_t group_tokens;
  Workspace whole;
  std::vector<Lane> lanes;
  std::vector<Group> groups;
  size_t token_capacity = 0;
  size_t sequence_capacity = 0;
  bool holds_scratch = false;                  // of the backend
  std::unique_ptr<Buffer> pooled_a, pooled_b;  // [sequences, widest step], used in turn
  // [sequences, hidden] each: see ForwardChosen.
  std::unique_ptr<Buffer> chosen_context, chosen_x, chosen_normed;
  std::atomic<uint64_t> held_bytes{0};  // of all buffers above

  // The call under way.
  PackedBatch batch;
  EncoderOutput output = EncoderOutput::kPooled;
  std::span<float* const> sinks;
  std::vector<float*> sinks_in_line;  // of a Run into one array
  // The one token of each sequence that the output is made of; empty: all are.
  std::vector<int32_t> chosen;
};

EncoderSession::Impl::Impl(const EncoderModel* m)
    : model(m), weights(*m->impl_->weights), whole(weights) {
  const size_t row_bytes = sizeof(float) * static_cast<size_t>(weights.hidden) *
                           (weights.architecture->pre_norm ? 6 : 5);
  const double room = kGroupShare * static_cast<double>(weights.backend->lane_cache_bytes());
  group_tokens =
      std::clamp(static_cast<size_t>(room) / row_bytes, kGroupTokensMin, kGroupTokensMax);
  lanes.reserve(weights.backend->lanes());
  for (size_t i = 0; i < weights.backend->lanes(); ++i) lanes.emplace_back(weights);
}

void EncoderSession::Impl::Reserve(size_t tokens, size_t sequences) {
  for (Lane& lane : lanes) lane.offsets.reserve(sequences + 1);
  groups.reserve(sequences);
  sinks_in_line.reserve(sequences);
  chosen.reserve(sequences);
  if (tokens <= token_capacity && sequences <= sequence_capacity) return;
  try {
    if (tokens > token_capacity) ReserveTokens(RoundUp(tokens, kTokenStep));
    if (sequences > sequence_capacity) ReserveRows(RoundUp(sequences, kSequenceStep));
  } catch (...) {
    CountHeld();
    throw;
  }
  CountHeld();
}

void EncoderSession::Impl::ReserveTokens(size_t tokens) {
  if (!holds_scratch) weights.backend->HoldScratch();
  holds_scratch = true;
  const size_t longest = std::min(static_cast<size_t>(model->max_tokens()), tokens);
  const size_t lane_tokens = std::min(tokens, std::max(longest, group_tokens));
  token_capacity = 0;
  for (Lane& lane : lanes) lane.workspace.Reserve(weights.backend, lane_tokens);
  whole.Reserve(weights.backend, tokens);
  weights.backend->Reserve(longest, static_cast<size_t>(weights.hidden / weights.heads));
  token_capacity = tokens;
}

void EncoderSession::Impl::ReserveRows(size_t rows) {
  sequence_capacity = 0;
  size_t width = static_cast<size_t>(weights.hidden) * std::max<size_t>(1, weights.pooling.size());
  for (const auto* steps : {&weights.dense, &weights.head}) {
    for (const DenseStep& step : *steps) {
      width = std::max(width, static_cast<size_t>(step.linear->out()));
    }
  }
  const auto alloc = [&](std::unique_ptr<Buffer>* buffer, size_t floats) {
    buffer->reset();
    *buffer = weights.backend->Alloc(rows * floats, BufferUse::kActivations);
  };
  for (auto* pooled : {&pooled_a, &pooled_b}) alloc(pooled, width);
  for (auto* buffer : {&chosen_context, &chosen_x, &chosen_normed}) {
    alloc(buffer, static_cast<size_t>(weights.hidden));
  }
  sequence_capacity = rows;
}

uint64_t EncoderSession::Impl::Release() {
  uint64_t released = held_bytes.load(std::memory_order_relaxed);
  whole.Release();
  for (Lane& lane : lanes) {
    lane.workspace.Release();
    lane.offsets = std::vector<int32_t>();
  }
  groups = std::vector<Group>();
  for (auto* buffer : sequence_buffers()) buffer->reset();
  token_capacity = 0;
  sequence_capacity = 0;
  if (holds_scratch) released += weights.backend->ReleaseScratch();
  holds_scratch = false;
  CountHeld();
  return released;
}

void EncoderSession::Impl::CountHeld() {
  uint64_t bytes = whole.bytes();
  for (const Lane& lane : lanes) bytes += lane.workspace.bytes();
  for (const auto* buffer : sequence_buffers()) {
    if (*buffer != nullptr) bytes += (*buffer)->size() * sizeof(float);
  }
  held_bytes.store(bytes, std::memory_order_relaxed);
}

Status EncoderSession::Impl::Check(const PackedBatch& given, EncoderOutput wanted,
                                   std::span<float* const> given_sinks) const {
  const size_t sequences = given.sequences();
  if (sequences == 0) return Status::InvalidArgument("the batch is empty", "inputs");
  if (given.offsets[0] != 0 || static_cast<size_t>(given.offsets[sequences]) != given.tokens()) {
    return Status::InvalidArgument("offsets do not cover the tokens", "offsets");
  }
  if (!given.type_ids.empty() && given.type_ids.size() != given.tokens()) {
    return Status::InvalidArgument("one type id is needed for each token", "type_ids");
  }
  if (!given.pool_skip.empty() && given.pool_skip.size() != sequences) {
    return Status::InvalidArgument("one pool_skip is needed for each sequence", "pool_skip");
  }
  for (size_t s = 0; s < sequences; ++s) {
    const int32_t length = given.length(s);
    if (length <= 0 || length > model->max_tokens()) {
      return Status::InvalidArgument("sequence " + std::to_string(s) + " has " +
                                         std::to_string(length) + " tokens, the model takes 1 to " +
                                         std::to_string(model->max_tokens()),
                                     "inputs");
    }
    if (!given.pool_skip.empty() && (given.pool_skip[s] < 0 || given.pool_skip[s] >= length)) {
      return Status::InvalidArgument("pool_skip leaves nothing to pool", "pool_skip");
    }
  }
  for (int32_t id : given.ids) {
    if (id < 0 || id >= weights.vocab) {
      return Status::InvalidArgument(
          "token id " + std::to_string(id) + " is not below " + std::to_string(weights.vocab),
          "inputs");
    }
  }
  // Models without a table of types ignore them.
  for (int32_t type : weights.type_rows > 1 ? given.type_ids : std::span<const int32_t>()) {
    if (type < 0 || type >= weights.type_rows) {
      return Status::InvalidArgument(
          "type id " + std::to_string(type) + " is not below " + std::to_string(weights.type_rows),
          "type_ids");
    }
  }
  if (model->OutputWidth(wanted) <= 0 ||
      (wanted == EncoderOutput::kPooled && weights.pooling.empty())) {
    return Status::InvalidArgument("this model does not give that output", "model");
  }
  if (given_sinks.size() != sequences) {
    return Status::InvalidArgument("one sink is needed for each sequence", "out");
  }
  return Status::Ok();
}

// Groups of neighbours, largest first.
void EncoderSession::Impl::Plan(const PackedBatch& given) {
  groups.clear();
  for (size_t s = 0; s < given.sequences(); ++s) {
    const size_t length = static_cast<size_t>(given.length(s));
    if (groups.empty() || groups.back().tokens + length > group_tokens) groups.push_back({s, s, 0});
    groups.back().end = s + 1;
    groups.back().tokens += length;
  }
  std::sort(groups.begin(), groups.end(),
            [](const Group& a, const Group& b) { return a.tokens > b.tokens; });
}

// The end of the last layer, most of its work, is then done for those tokens alone.
void EncoderSession::Impl::Choose() {
  chosen.clear();
  const bool logits = output == EncoderOutput::kLogits;
  if (output == EncoderOutput::kTokens || weights.layers.empty()) return;
  if (!logits && weights.pooling.size() != 1) return;
  const Pooling pooling = logits ? weights.head_pooling : weights.pooling[0];
  if (pooling != Pooling::kCls && pooling != Pooling::kLastToken) return;
  for (size_t s = 0; s < batch.sequences(); ++s) {
    const int32_t first = logits || batch.pool_skip.empty() ? 0 : batch.pool_skip[s];
    chosen.push_back(pooling == Pooling::kCls ? first : batch.length(s) - 1);
  }
}

// Whether threads that each take the next group are done at about the same time.
bool EncoderSession::Impl::GroupsAreEven(const PackedBatch& given) {
  for (Lane& lane : lanes) lane.load = 0;
  size_t last = 0;
  for (const Group& group : groups) {
    Lane& next = *std::min_element(lanes.begin(), lanes.end(),
                                   [](const Lane& a, const Lane& b) { return a.load < b.load; });
    next.load += group.tokens;
    last = std::max(last, next.load);
  }
  return static_cast<double>(last * lanes.size()) <=
         kUnevenMax * static_cast<double>(given.tokens());
}

void EncoderSession::Impl::RunPiece(size_t index, size_t lane_index, Backend* backend) {
  const Group& group = groups[index];
  Lane& lane = lanes[lane_index];
  const int32_t first = batch.offsets[group.begin];
  lane.offsets.clear();
  for (size_t s = group.begin; s <= group.end; ++s)
    lane.offsets.push_back(batch.offsets[s] - first);
  PackedBatch part;
  part.ids = batch.ids.subspan(static_cast<size_t>(first), group.tokens);
  if (!batch.type_ids.empty()) {
    part.type_ids = batch.type_ids.subspan(static_cast<size_t>(first), group.tokens);
  }
  part.offsets = lane.offsets;
  if (!batch.pool_skip.empty()) {
    part.pool_skip = batch.pool_skip.subspan(group.begin, group.end - group.begin);
  }
  RunRange(part, group.begin, &lane.workspace, backend);
}

void EncoderSession::Impl::RunRange(const PackedBatch& part, size_t begin, Workspace* workspace,
                                    Backend* backend) {
  const size_t hidden_size = static_cast<size_t>(weights.hidden);
  workspace->Reserve(backend, part.tokens());
  if (!chosen.empty()) {
    workspace->ForwardChosen(
        part, std::span<const int32_t>(chosen).subspan(begin, part.sequences()),
        chosen_context->data() + begin * hidden_size, chosen_x->data() + begin * hidden_size);
    return;
  }
  const float* hidden = workspace->Forward(part);
  if (output == EncoderOutput::kTokens) {
    for (size_t s = 0; s < part.sequences(); ++s) {
      backend->CopyOut(hidden + static_cast<size_t>(part.offsets[s]) * hidden_size,
                       sinks[begin + s], static_cast<size_t>(part.length(s)) * hidden_size);
    }
    return;
  }
  PoolArgs pool;
  pool.x = hidden;
  pool.offsets = part.offsets;
  pool.width = weights.hidden;
  if (output == EncoderOutput::kLogits) {
    pool.pooling = weights.head_pooling;
    pool.out = pooled_a->data() + begin * hidden_size;
    pool.out_stride = weights.hidden;
    backend->Pool(pool);
    return;
  }
  pool.skip = part.pool_skip;
  pool.out_stride = weights.hidden * static_cast<int32_t>(weights.pooling.size());
  for (size_t i = 0; i < weights.pooling.size(); ++i) {
    pool.pooling = weights.pooling[i];
    pool.out = pooled_a->data() + begin * static_cast<size_t>(pool.out_stride) + i * hidden_size;
    backend->Pool(pool);
  }
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
uint64_t EncoderSession::HeldBytes() const {
  return impl_->held_bytes.load(std::memory_order_relaxed) + impl_->weights.backend->ScratchBytes();
}
uint64_t EncoderSession::Release() { return impl_->Release(); }

Status EncoderSession::Run(const PackedBatch& batch, EncoderOutput output,
                           std::span<float* const> sinks) {
  Impl& impl = *impl_;
  PENSTOCK_RETURN_IF_ERROR(impl.Check(batch, output, sinks));
  impl.Reserve(batch.tokens(), batch.sequences());
  impl.batch = batch;
  impl.output = output;
  impl.sinks = sinks;
  Backend* backend = impl.weights.backend;
  impl.Plan(batch);
  impl.Choose();
  if (impl.GroupsAreEven(batch)) {
    backend->RunLanes(impl.groups.size(), &impl);
  } else {
    impl.RunRange(batch, 0, &impl.whole, backend);
  }
  if (output == EncoderOutput::kTokens) return Status::Ok();
  float* pooled = impl.pooled_a->data();
  if (!impl.chosen.empty()) {
    pooled =
        FinishLayer(impl.weights, impl.weights.layers.size() - 1, backend, batch.sequences(),
                    impl.chosen_context->data(), impl.chosen_x->data(), impl.chosen_normed->data());
  }
  const float* rows =
      impl.RunSteps(output == EncoderOutput::kLogits ? impl.weights.head : impl.weights.dense,
                    batch.sequences(), pooled);
  const size_t width = static_cast<size_t>(impl.model->OutputWidth(output));
  for (size_t s = 0; s < sinks.size(); ++s) backend->CopyOut(rows + s * width, sinks[s], width);
  return Status::Ok();
}

Status EncoderSession::Run(const PackedBatch& batch, EncoderOutput output, std::span<float> out) {
  const size_t width = static_cast<size_t>(std::max(0, impl_->model->OutputWidth(output)));
  const bool by_token = output == EncoderOutput::kTokens;
  if (out.size() != (by_token ? batch.tokens() : batch.sequences()) * width) {
    return Status::InvalidArgument("the output buffer has the wrong size", "out");
  }
  std::vector<float*>& sinks = impl_->sinks_in_line;
  sinks.clear();
  for (size_t s = 0; s < batch.sequences(); ++s) {
    const size_t row = by_token ? static_cast<size_t>(batch.offsets[s]) : s;
    sinks.push_back(out.data() + row * width);
  }
  return Run(batch, output, std::span<float* const>(sinks));
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
