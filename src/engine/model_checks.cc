#include "engine/model_checks.h"

#include <fmt/format.h>

#include <functional>
#include <optional>

#include "checks/check_records.h"
#include "checks/known_answers.h"
#include "common/log.h"
#include "engine/decoder_engine.h"
#include "engine/encoder_engine.h"
#include "engine/expected_answers.h"
#include "families/decoder_files.h"

namespace penstock {
namespace {

struct ModelToCheck {
  const std::string& name;
  const std::string& path;
  const std::string& fingerprint;
  std::string settings;  // all that results depend on besides the files
  Clock::time_point begun;
};

// `first`: the checks of the first load; `compare`: the model's answers.
Status Check(const ModelToCheck& model, const ModelCheckOptions& options, Backend* backend,
             const std::function<Status(CheckClock*)>& first,
             const std::function<Status(const ExpectedAnswers&, CheckClock*)>& compare) {
  const CheckRecords records(options.records);
  const std::string key = CheckKey(model.path, model.fingerprint, model.settings);
  const bool known = records.Has(key);
  CheckClock clock(CheckTimeOf(Clock::now() - model.begun), &backend->gate());
  if (!known) {
    PENSTOCK_RETURN_IF_ERROR(first(&clock));
    LogDebug("{}: checked in {:.1f} ms{}", model.name,
             std::chrono::duration<double, std::milli>(clock.took()).count(),
             clock.complete() ? "" : ", in part: the time was up");
  }
  PENSTOCK_ASSIGN_OR_RETURN(const std::optional<ExpectedAnswers> expected,
                            ExpectedAnswers::Read(model.path));
  if (expected) {
    PENSTOCK_RETURN_IF_ERROR(compare(*expected, &clock));
    LogDebug("{}: gives the answers of {}", model.name, ExpectedAnswers::kFileName);
  }
  if (!known) records.Add(key, model.path + "\n" + model.settings);
  return Status::Ok();
}

// The first layers of a decoder, as many as the time allows, and the check of a linear layer.
Status CheckDecoder(const std::string& path, const TextModel& model, Backend* backend,
                    CheckClock* clock) {
  const DecoderModel& decoder = *model.decoder;
  PENSTOCK_RETURN_IF_ERROR(CheckLinear(
      [&]() -> Expected<LinearCheck> {
        PENSTOCK_ASSIGN_OR_RETURN(const DecoderFiles files, DecoderFiles::Open(path));
        return CheckDecoderLinear(decoder, files, model.cache_type, backend);
      },
      clock));
  double step_s = 0;
  const double left_s = std::chrono::duration<double>(clock->left()).count();
  const Program program = ProgramWithin(decoder.program(), left_s / 2, &step_s);
  if (program.ops.size() < decoder.program().ops.size()) {
    LogDebug("{} of {} operations are checked", program.ops.size(), decoder.program().ops.size());
  }
  StepOptions options;
  options.cache_type = model.cache_type;
  options.rows = kCheckRows;
  options.picks = kCheckLogitRows;
  options.blocks = {2};
  PENSTOCK_ASSIGN_OR_RETURN(const auto run, backend->PrepareSteps(program, options));
  return CheckSteps(run.get(), decoder.config().vocab_size, model.context(), step_s, clock);
}

}  // namespace

Status CheckEncoderEngine(const std::string& path, const EncoderEngineOptions& options,
                          Clock::time_point begun, Backend* backend, const EncoderParts& parts) {
  if (!options.check.on) return Status::Ok();
  const ModelToCheck model = {
      options.name, path, parts.fingerprint,
      fmt::format("{} {} {} {}", backend->name(), DTypeName(parts.dtype),
                  TypeOverridesText(parts.int8_keep), PoolingModeName(parts.folder.pooling)),
      begun};
  RunnerToCheck runner;
  runner.runner = parts.runners[0].get();
  runner.output = parts.num_labels > 0 ? EncoderOutput::kLogits : EncoderOutput::kPooled;
  runner.vocab_size = parts.folder.encoder.vocab_size;
  runner.max_tokens = parts.max_tokens;
  runner.times = options.scheduler.times;
  runner.same_bits = parts.same_bits;
  return Check(
      model, options.check, backend,
      [&](CheckClock* clock) { return CheckRunner(runner, parts.linear_checker, clock); },
      [&](const ExpectedAnswers& expected, CheckClock* clock) {
        return CompareAnswers(expected, parts, clock);
      });
}

Status CheckDecoderEngine(const std::string& path, const DecoderEngineOptions& options,
                          Clock::time_point begun, Backend* backend, const TextModel& model) {
  if (!options.check.on) return Status::Ok();
  const std::string settings = fmt::format(
      "{} {} {}", backend->name(), options.model.dtype ? DTypeName(*options.model.dtype) : "auto",
      DTypeName(model.cache_type));
  return Check(
      {options.name, path, "", settings, begun}, options.check, backend,
      [&](CheckClock* clock) { return CheckDecoder(path, model, backend, clock); },
      [&](const ExpectedAnswers& expected, CheckClock* clock) {
        return CompareAnswers(expected, model, clock);
      });
}

}  // namespace penstock
