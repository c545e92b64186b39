#include "models/encoder.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "log/exception_status.h"
#include "models/encoder_program.h"
#include "models/load_weights.h"
#include "models/weights.h"

namespace penstock::models {
namespace {

constexpr std::array kOutputs = {program::EncoderOutput::kPooled, program::EncoderOutput::kTokens,
                                 program::EncoderOutput::kLogits};

bool Offers(const EncoderWeights& weights, program::EncoderOutput output) {
  if (output == program::EncoderOutput::kPooled) return !weights.pooling.empty();
  return output == program::EncoderOutput::kTokens || !weights.head.empty();
}

}  // namespace

struct EncoderModel::Impl {
  // The index of an output's program; SIZE_MAX: none.
  size_t IndexOf(program::EncoderOutput output) const {
    return indices[static_cast<size_t>(output)];
  }

  families::ModelFolder folder;
  std::unique_ptr<EncoderWeights> weights;
  std::vector<program::Program> programs;
  std::array<size_t, kOutputs.size()> indices;
};

EncoderModel::EncoderModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EncoderModel::~EncoderModel() = default;

Expected<std::unique_ptr<EncoderModel>> EncoderModel::Load(const families::ModelFolder& folder,
                                                           program::Backend* backend,
                                                           const LinearTypes& types) {
  auto impl = std::make_unique<Impl>();
  impl->folder = folder;
  auto weights = LoadEncoderWeights(folder, backend, types);
  if (!weights.ok()) return weights.status().Annotate(folder.path);
  impl->weights = *std::move(weights);
  for (const program::EncoderOutput output : kOutputs) {
    size_t& index = impl->indices[static_cast<size_t>(output)];
    index = SIZE_MAX;
    if (!Offers(*impl->weights, output)) continue;
    index = impl->programs.size();
    impl->programs.push_back(EncoderProgram(*impl->weights, output));
    const Status checked = program::CheckProgram(impl->programs.back());
    if (!checked.ok()) return checked.Annotate(folder.path);
  }
  return std::unique_ptr<EncoderModel>(new EncoderModel(std::move(impl)));
}

const families::ModelFolder& EncoderModel::folder() const { return impl_->folder; }
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
bool EncoderModel::uses_type_ids() const {
  return impl_->weights->types != nullptr && impl_->weights->types->rows() > 1;
}
uint64_t EncoderModel::parameters() const { return impl_->weights->parameters; }
uint64_t EncoderModel::weight_bytes() const { return impl_->weights->bytes; }

int32_t EncoderModel::OutputWidth(program::EncoderOutput output) const {
  switch (output) {
    case program::EncoderOutput::kPooled:
      return embedding_size();
    case program::EncoderOutput::kTokens:
      return hidden_size();
    case program::EncoderOutput::kLogits:
      return num_labels();
  }
  return 0;
}

const program::Program* EncoderModel::program(program::EncoderOutput output) const {
  const size_t index = impl_->IndexOf(output);
  return index == SIZE_MAX ? nullptr : &impl_->programs[index];
}

struct EncoderSession::Impl {
  explicit Impl(const EncoderModel* m) : model(m) {
    std::vector<const program::Program*> programs;
    for (const program::Program& program : m->impl_->programs) programs.push_back(&program);
    auto prepared = m->impl_->weights->backend->Prepare(programs);
    status = prepared.status();
    if (prepared.ok()) run = *std::move(prepared);
  }

  const EncoderModel* model;
  Status status;                             // of preparing the programs
  std::unique_ptr<program::ProgramRun> run;  // null if that failed
  std::vector<float*> sinks_in_line;         // of a Run into one array
};

EncoderSession::EncoderSession(const EncoderModel* model) : impl_(std::make_unique<Impl>(model)) {}
EncoderSession::~EncoderSession() = default;

Status EncoderSession::status() const { return impl_->status; }

Status EncoderSession::Reserve(size_t tokens, size_t sequences) {
  PENSTOCK_RETURN_IF_ERROR(impl_->status);
  return impl_->run->Reserve(tokens, sequences);
}
uint64_t EncoderSession::HeldBytes() const {
  return impl_->status.ok() ? impl_->run->HeldBytes() : 0;
}
uint64_t EncoderSession::BytesFor(size_t tokens, size_t sequences) const {
  return impl_->status.ok() ? impl_->run->BytesFor(tokens, sequences) : 0;
}
double EncoderSession::device_seconds() const {
  return impl_->status.ok() ? impl_->run->device_seconds() : 0;
}
uint64_t EncoderSession::Release() { return impl_->status.ok() ? impl_->run->Release() : 0; }

Status EncoderSession::Run(const program::PackedBatch& batch, program::EncoderOutput output,
                           std::span<float* const> sinks) {
  PENSTOCK_RETURN_IF_ERROR(impl_->status);
  const size_t index = impl_->model->impl_->IndexOf(output);
  if (index == SIZE_MAX) {
    return Status::InvalidArgument("this model does not give that output", "model");
  }
  if (output != program::EncoderOutput::kLogits) return impl_->run->Run(index, batch, sinks);
  // Only embeddings leave a prompt out of pooling.
  program::PackedBatch whole = batch;
  whole.pool_skip = {};
  return impl_->run->Run(index, whole, sinks);
}

Status EncoderSession::Run(const program::PackedBatch& batch, program::EncoderOutput output,
                           std::span<float> out) {
  const size_t width = static_cast<size_t>(std::max(0, impl_->model->OutputWidth(output)));
  const bool by_token = output == program::EncoderOutput::kTokens;
  if (out.size() != (by_token ? batch.tokens() : batch.sequences()) * width) {
    return Status::InvalidArgument("the output buffer has the wrong size", "out");
  }
  std::vector<float*>& sinks = impl_->sinks_in_line;
  sinks.clear();
  try {
    sinks.reserve(batch.sequences());
  } catch (...) {
    return ExceptionStatus();
  }
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

}  // namespace penstock::models
