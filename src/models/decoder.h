// A decoder: packed weights and the program over them. Immutable; any number of StepRuns may be
// prepared from it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "families/decoder_files.h"
#include "models/decoder_weights.h"
#include "program/backend.h"
#include "program/program.h"
#include "program/program_run.h"

namespace penstock::models {

class DecoderModel {
 public:
  // `backend` must outlive the model; the files need not. Errors: those of LoadDecoderWeights.
  static Expected<std::unique_ptr<DecoderModel>> Load(const families::DecoderFiles& files,
                                                      program::Backend* backend,
                                                      const DecoderOptions& options);

  const families::DecoderConfig& config() const { return config_; }
  const program::Program& program() const { return program_; }
  int32_t context() const { return weights_->context; }  // tokens of the longest sequence
  uint64_t parameters() const { return weights_->parameters; }
  uint64_t weight_bytes() const { return weights_->bytes; }
  const program::Backend& backend() const { return *backend_; }

  // A run with a cache of its own. The model must outlive it. Errors: those of Backend::Prepare.
  Expected<std::unique_ptr<program::ProgramRun>> NewRun(
      const program::PrepareOptions& options) const;

 private:
  DecoderModel(const families::DecoderFiles& files, program::Backend* backend,
               std::unique_ptr<DecoderWeights> weights);

  const families::DecoderConfig config_;
  program::Backend* const backend_;
  const std::unique_ptr<DecoderWeights> weights_;
  const program::Program program_;
};

}  // namespace penstock::models
