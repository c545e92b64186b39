// The checks of a load, before the model serves: those of its first load on a machine
// (known_answers.h), and its own answers (expected_answers.h) at each load.
#pragma once

#include <string>

#include "base/status.h"
#include "checks/linear_check.h"
#include "threads/request_context.h"

namespace penstock::generate {
struct TextModel;  // generate/text_model.h
}  // namespace penstock::generate

namespace penstock::program {
class Backend;
}  // namespace penstock::program

namespace penstock::checks {

struct RunnerToCheck;  // known_answers.h

struct ModelCheckOptions {
  bool on = false;
  // Where records of checks are (check_records.h).
  std::string records;
};

struct LoadToCheck {
  std::string name;  // as served
  std::string path;
  std::string fingerprint;  // "": the files stand for the model
  std::string settings;     // all that results depend on besides the files and the backend
  Clock::time_point begun;
};

// Does nothing where options.on is false. Batches run in turns of the backend's gate. Errors: those
// of CheckLinear and CompareAnswers.
Status CheckLoad(const LoadToCheck& load, const ModelCheckOptions& options,
                 program::Backend* backend, const RunnerToCheck& model,
                 const LinearChecker& linear);
Status CheckLoad(const LoadToCheck& load, const ModelCheckOptions& options,
                 program::Backend* backend, const generate::TextModel& model);

}  // namespace penstock::checks
