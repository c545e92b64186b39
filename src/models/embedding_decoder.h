// EmbeddingDecoder: a decoder that embeds or scores texts. Its layers are a decoder's program that
// ends in hidden states (program/program_run.h runs it); pooling, dense modules or a score follow
// as a program of their own, which begins with those states. Immutable.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "families/decoder_files.h"
#include "families/model_folder.h"
#include "models/decoder.h"
#include "models/weights.h"
#include "program/backend.h"
#include "program/encoder_runner.h"

namespace penstock::models {

class EmbeddingDecoder {
 public:
  // `files` of the same model, opened with kEmbed. The ids of folder.logit_score are set.
  // options.context is folder.max_tokens. `backend` must outlive the model. Errors: those of
  // DecoderModel::Load; kInvalidArgument names a tensor of the head that is missing or does not
  // fit.
  static Expected<std::unique_ptr<EmbeddingDecoder>> Load(const families::ModelFolder& folder,
                                                          const families::DecoderFiles& files,
                                                          program::Backend* backend,
                                                          const DecoderOptions& options);

  const DecoderModel& decoder() const { return *decoder_; }
  bool causal() const { return decoder_->config().causal; }
  int32_t hidden_size() const { return decoder_->config().hidden_size; }
  int32_t max_tokens() const { return decoder_->context(); }
  int32_t embedding_size() const { return OutputWidth(program::EncoderOutput::kPooled); }
  int32_t num_labels() const { return OutputWidth(program::EncoderOutput::kLogits); }
  uint64_t parameters() const { return decoder_->parameters() + head_.parameters; }
  uint64_t weight_bytes() const { return decoder_->weight_bytes() + head_.bytes; }

  // Row width of an output, in floats; 0: not offered.
  int32_t OutputWidth(program::EncoderOutput output) const;
  // Whether an output is made of the states of all tokens of a sequence; else of the last one's.
  bool NeedsAllStates(program::EncoderOutput output) const;

  // Head programs of kPooled or kLogits, whichever is offered, at index 0. Their input is rows of
  // states: of all tokens, or of the last ones as sequences of one token.
  Expected<std::unique_ptr<program::ProgramRun>> NewHead() const;

 private:
  EmbeddingDecoder(std::unique_ptr<DecoderModel> decoder, program::Backend* backend)
      : backend_(backend), decoder_(std::move(decoder)) {
    head_.backend = backend;
    head_.hidden = hidden_size();
  }
  Status LoadHead(const families::ModelFolder& folder, const families::DecoderFiles& files);
  Status LoadScore(const families::LogitScore& score, const families::DecoderFiles& files);

  program::Backend* const backend_;
  const std::unique_ptr<DecoderModel> decoder_;
  EncoderWeights head_;
  program::EncoderOutput offered_ = program::EncoderOutput::kPooled;
  program::Program program_;
};

}  // namespace penstock::models
