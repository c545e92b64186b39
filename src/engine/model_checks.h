// What a model must pass before it serves: the checks of its first load on a machine
// (known_answers.h), and its own answers (expected_answers.h) at each load.
#pragma once

#include <string>

#include "common/request_context.h"
#include "common/status.h"

namespace penstock {

class Backend;
struct EncoderEngineOptions;  // encoder_engine.h
struct EncoderParts;          // encoder_engine.h
struct DecoderEngineOptions;  // decoder_engine.h
struct TextModel;             // generate/text_model.h

struct ModelCheckOptions {
  bool on = false;
  // Where records of checks are (check_records.h).
  std::string records;
};

// Of the model at `path`, whose load began then; nothing where options.check is off. Batches run in
// turns of the backend's gate. Errors: those of CheckRunner, CheckSteps and CompareAnswers.
Status CheckEncoderEngine(const std::string& path, const EncoderEngineOptions& options,
                          Clock::time_point begun, Backend* backend, const EncoderParts& parts);
Status CheckDecoderEngine(const std::string& path, const DecoderEngineOptions& options,
                          Clock::time_point begun, Backend* backend, const TextModel& model);

}  // namespace penstock
