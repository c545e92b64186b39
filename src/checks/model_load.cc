#include "checks/model_load.h"

#include <fmt/format.h>

#include <memory>

#include "checks/check.h"
#include "checks/check_records.h"
#include "checks/known_answers.h"
#include "families/decoder_files.h"
#include "generate/text_model.h"
#include "log/log.h"

namespace penstock::checks {
namespace {

// Whether the model of a load passed before, and what is left to check.
class RecordedLoad {
 public:
  RecordedLoad(const LoadToCheck& load, const ModelCheckOptions& options,
               const program::Backend& backend)
      : load_(load),
        settings_(fmt::format("{} {}", backend.name(), load.settings)),
        records_(options.records),
        key_(CheckKey(load.path, load.fingerprint, settings_)),
        known_(records_.Has(key_)) {}

  Status Check(const CheckSubject& subject) const {
    if (!known_) {
      PENSTOCK_RETURN_IF_ERROR(RunChecks(CheckTime::kFirstLoad, subject));
      LogDebug("{}: checked in {:.1f} ms{}", load_.name,
               std::chrono::duration<double, std::milli>(subject.clock->took()).count(),
               subject.clock->complete() ? "" : ", in part: the time was up");
    }
    PENSTOCK_RETURN_IF_ERROR(RunChecks(CheckTime::kEachLoad, subject));
    if (!known_) records_.Add(key_, load_.path + "\n" + settings_);
    return Status::Ok();
  }

 private:
  const LoadToCheck& load_;
  const std::string settings_;
  const CheckRecords records_;
  const std::string key_;
  const bool known_;
};

CheckClock ClockOf(const LoadToCheck& load, program::Backend* backend) {
  return {CheckTimeOf(Clock::now() - load.begun), &backend->gate()};
}

}  // namespace

Status CheckLoad(const LoadToCheck& load, const ModelCheckOptions& options,
                 program::Backend* backend, const RunnerToCheck& model,
                 const LinearChecker& linear) {
  if (!options.on) return Status::Ok();
  const RecordedLoad recorded(load, options, *backend);
  CheckClock clock = ClockOf(load, backend);
  const auto results = ResultsOf(&model, &clock);
  CheckSubject subject = {.name = load.name, .results = results.get(), .clock = &clock};
  subject.linear = linear;
  subject.path = load.path;
  subject.encoder = &model;
  return recorded.Check(subject);
}

Status CheckLoad(const LoadToCheck& load, const ModelCheckOptions& options,
                 program::Backend* backend, const generate::TextModel& model) {
  if (!options.on) return Status::Ok();
  const RecordedLoad recorded(load, options, *backend);
  CheckClock clock = ClockOf(load, backend);
  const models::DecoderModel& decoder = *model.decoder;
  program::Program program;  // outlives its run
  const auto first_layers = [&](double* step_s) {
    const double left_s = std::chrono::duration<double>(clock.left()).count();
    program = ProgramWithin(decoder.program(), left_s / 2, step_s);
    if (program.ops.size() < decoder.program().ops.size()) {
      LogDebug("{} of {} operations are checked", program.ops.size(), decoder.program().ops.size());
    }
    program::PrepareOptions steps;
    steps.cache_type = model.cache_type;
    steps.rows = kCheckRows;
    steps.picks = kCheckLogitRows;
    steps.blocks = {2};
    return backend->Prepare(program, steps);
  };
  const auto results =
      ResultsOf({decoder.config().vocab_size, model.context(), first_layers}, &clock);
  CheckSubject subject = {.name = load.name, .results = results.get(), .clock = &clock};
  subject.linear = [&]() -> Expected<program::KernelDifference> {
    PENSTOCK_ASSIGN_OR_RETURN(const families::DecoderFiles files,
                              families::DecoderFiles::Open(load.path));
    return CheckDecoderLinear(decoder, files, model.cache_type, backend);
  };
  subject.path = load.path;
  subject.decoder = &model;
  return recorded.Check(subject);
}

}  // namespace penstock::checks
