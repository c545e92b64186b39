#include "models/decoder.h"

#include <utility>

#include "models/decoder_program.h"

namespace penstock::models {

Expected<std::unique_ptr<DecoderModel>> DecoderModel::Load(const families::DecoderFiles& files,
                                                           program::Backend* backend,
                                                           const DecoderOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(auto weights, LoadDecoderWeights(files, backend, options));
  std::unique_ptr<DecoderModel> model(new DecoderModel(files, backend, std::move(weights)));
  PENSTOCK_RETURN_IF_ERROR(program::CheckProgram(model->program()));
  return model;
}

DecoderModel::DecoderModel(const families::DecoderFiles& files, program::Backend* backend,
                           std::unique_ptr<DecoderWeights> weights)
    : config_(files.config),
      backend_(backend),
      weights_(std::move(weights)),
      program_(DecoderProgram(config_, *weights_, files.use)) {}

Expected<std::unique_ptr<program::ProgramRun>> DecoderModel::NewRun(
    const program::PrepareOptions& options) const {
  return backend_->Prepare(program_, options);
}

}  // namespace penstock::models
