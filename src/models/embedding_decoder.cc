#include "models/embedding_decoder.h"

#include <algorithm>
#include <string>

#include "models/encoder_program.h"
#include "models/load_weights.h"
#include "models/weight_reader.h"

namespace penstock::models {
namespace {

// Rows of yes and no that llama.cpp's conversion took out of the output.
constexpr const char* kGgufScore = "cls.output.weight";

// Row `index` of a matrix whose rows are whole blocks, in f32.
Expected<std::vector<float>> RowOf(const files::TensorRecord& matrix, int64_t index) {
  if (index < 0 || index >= matrix.shape[0]) {
    return Status::InvalidArgument("tensor '" + matrix.name + "' has no row " +
                                       std::to_string(index) + ", which the score is made of",
                                   matrix.name);
  }
  const size_t bytes = matrix.data.size() / static_cast<size_t>(matrix.shape[0]);
  files::TensorRecord row = matrix;
  row.shape[0] = 1;
  row.data = matrix.data.subspan(static_cast<size_t>(index) * bytes, bytes);
  std::vector<float> values(static_cast<size_t>(matrix.shape[1]));
  PENSTOCK_RETURN_IF_ERROR(row.CopyToF32(values));
  return values;
}

}  // namespace

Expected<std::unique_ptr<EmbeddingDecoder>> EmbeddingDecoder::Load(
    const families::ModelFolder& folder, const families::DecoderFiles& files,
    program::Backend* backend, const DecoderOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(auto decoder, DecoderModel::Load(files, backend, options));
  std::unique_ptr<EmbeddingDecoder> model(new EmbeddingDecoder(std::move(decoder), backend));
  PENSTOCK_RETURN_IF_ERROR(model->LoadHead(folder, files));
  model->program_ = HeadProgram(model->head_, model->offered_, model->max_tokens());
  PENSTOCK_RETURN_IF_ERROR(program::CheckProgram(model->program_));
  return model;
}

Status EmbeddingDecoder::LoadHead(const families::ModelFolder& folder,
                                  const families::DecoderFiles& files) {
  if (folder.task == families::ModelTask::kEmbedding) return LoadEmbeddingHead(folder, &head_);
  offered_ = program::EncoderOutput::kLogits;
  head_.head_pooling = program::Pooling::kLastToken;
  if (folder.logit_score) return LoadScore(*folder.logit_score, files);
  WeightReader reader(*files.store, "", &head_);
  DenseStep classifier;
  PENSTOCK_ASSIGN_OR_RETURN(classifier.linear, reader.Linear("score", folder.encoder.num_labels,
                                                             hidden_size(), numbers::DType::kF32));
  head_.head.push_back(std::move(classifier));
  return Status::Ok();
}

// logit(true) - logit(false) as one row: the difference of two rows of the output.
Status EmbeddingDecoder::LoadScore(const families::LogitScore& score,
                                   const families::DecoderFiles& files) {
  const files::TensorRecord* output = &files.tensors.output.weight;
  int64_t yes = score.true_id, no = score.false_id;
  if (const files::TensorRecord* rows = files.store->Find(kGgufScore);
      rows != nullptr && rows->shape == std::vector<int64_t>{2, hidden_size()}) {
    output = rows;
    yes = 0;
    no = 1;
  }
  PENSTOCK_ASSIGN_OR_RETURN(std::vector<float> row, RowOf(*output, yes));
  if (score.false_id >= 0) {
    PENSTOCK_ASSIGN_OR_RETURN(const std::vector<float> less, RowOf(*output, no));
    for (size_t i = 0; i < row.size(); ++i) row[i] -= less[i];
  }
  const float scale = files.config.logit_scale;
  for (float& x : row) x *= scale;
  if (files.config.logit_soft_cap != 0) {
    return Status::Unsupported("a score of logits that are capped is not supported",
                               "final_logit_softcapping");
  }
  program::LinearRows rows;
  rows.weight = {numbers::DType::kF32, 1, hidden_size(),
                 reinterpret_cast<const std::byte*>(row.data())};
  DenseStep step;
  PENSTOCK_ASSIGN_OR_RETURN(step.linear,
                            backend_->Pack({&rows, 1}, {.dtype = numbers::DType::kF32}));
  head_.bytes += step.linear->bytes();
  head_.head.push_back(std::move(step));
  return Status::Ok();
}

int32_t EmbeddingDecoder::OutputWidth(program::EncoderOutput output) const {
  if (output == program::EncoderOutput::kTokens) return hidden_size();
  return output == offered_ ? program_.values[program_.result].width : 0;
}

bool EmbeddingDecoder::NeedsAllStates(program::EncoderOutput output) const {
  if (output == program::EncoderOutput::kTokens) return true;
  if (output == program::EncoderOutput::kLogits) return false;
  return std::any_of(head_.pooling.begin(), head_.pooling.end(), [](program::Pooling pooling) {
    return pooling != program::Pooling::kLastToken;
  });
}

Expected<std::unique_ptr<program::ProgramRun>> EmbeddingDecoder::NewHead() const {
  return backend_->Prepare(program_);
}

}  // namespace penstock::models
