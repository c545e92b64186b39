#include "doctor_decoder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "checks/decoder_results.h"
#include "devices/backends.h"
#include "doctor_decoder_types.h"
#include "families/decoder_files.h"
#include "generate/text_model.h"

namespace penstock::cli {
namespace {

// The longest sequence that is run, if the model's own context is not shorter.
constexpr int32_t kContext = 1024;

class DecoderDoctor {
 public:
  DecoderDoctor(const DecoderPlace& place, const runtime::ModelOptions& flags,
                const checks::SayOfCheck& say)
      : place_(place), flags_(flags), say_(say) {}

  void Run(const AccuracyFlags& accuracy) {
    auto loaded = LoadAsAsked();
    if (!loaded.ok()) {
      return say_(checks::Verdict::kFailed, "load",
                  loaded.status().Annotate("cannot load model '" + place_.name + "'").message());
    }
    checks::CheckSubject subject;
    subject.tokenizer = loaded->model->tokenizer.get();
    const auto results = checks::DecoderResultsOf(*std::move(loaded), [this] { return Load(1); });
    subject.results = results.get();
    subject.kernels = [this]() -> Expected<std::vector<program::KernelDifference>> {
      PENSTOCK_ASSIGN_OR_RETURN(const devices::DeviceOptions options, runtime::DeviceAsked(flags_));
      return devices::CheckKernels(options.device);
    };
    subject.accuracy = [&](const checks::Say& say) { return Compare(accuracy, say); };
    checks::ReportChecks(checks::CheckTime::kDoctor, subject, say_);
  }

 private:
  Expected<std::unique_ptr<program::Backend>> BackendOf(int threads) const {
    PENSTOCK_ASSIGN_OR_RETURN(devices::DeviceOptions options, runtime::DeviceAsked(flags_));
    options.threads = threads;
    return devices::NewBackend(options);
  }
  Expected<std::unique_ptr<generate::TextModel>> ModelOn(
      program::Backend* backend, std::optional<numbers::DType> dtype) const {
    generate::TextModelOptions options;
    options.dtype = dtype;
    options.context = context_;
    return generate::TextModel::Load(place_.path, backend, options);
  }
  Expected<checks::HeldDecoder> Load(int threads) const {
    checks::HeldDecoder loaded;
    PENSTOCK_ASSIGN_OR_RETURN(loaded.backend, BackendOf(threads));
    PENSTOCK_ASSIGN_OR_RETURN(loaded.model, ModelOn(loaded.backend.get(), dtype_));
    return loaded;
  }

  Expected<checks::HeldDecoder> LoadAsAsked() {
    PENSTOCK_ASSIGN_OR_RETURN(dtype_, TypeAsked(flags_));
    PENSTOCK_ASSIGN_OR_RETURN(const families::DecoderFiles files,
                              families::DecoderFiles::Open(place_.path));
    context_ = std::min(files.config.context, kContext);
    PENSTOCK_ASSIGN_OR_RETURN(checks::HeldDecoder loaded, Load(flags_.threads));
    std::vector<std::string> types;
    for (const families::StoredType& type : families::TypesInFiles(*files.store)) {
      types.emplace_back(numbers::DTypeName(type.dtype));
    }
    say_(checks::Verdict::kOk, "load",
         fmt::format("{}: generation, {}, {} parameters stored as {}, computed in {}, {}",
                     place_.name, files.config.architecture, files.parameters,
                     fmt::join(types, ", "), ComputedTypes(*loaded.model->decoder),
                     loaded.backend->name()));
    return loaded;
  }

  Status Compare(const AccuracyFlags& accuracy, const checks::Say& say) const {
    if (SkipAccuracy(accuracy, say)) return Status::Ok();
    PENSTOCK_ASSIGN_OR_RETURN(const auto backend, BackendOf(flags_.threads));
    return CompareDecoderTypes(
        [&](std::optional<numbers::DType> dtype) { return ModelOn(backend.get(), dtype); },
        accuracy, say);
  }

  const DecoderPlace& place_;
  const runtime::ModelOptions& flags_;
  const checks::SayOfCheck& say_;
  int32_t context_ = 0;
  std::optional<numbers::DType> dtype_;
};

}  // namespace

void DiagnoseDecoder(const DecoderPlace& place, const runtime::ModelOptions& model,
                     const AccuracyFlags& accuracy, const checks::SayOfCheck& say) {
  DecoderDoctor(place, model, say).Run(accuracy);
}

}  // namespace penstock::cli
