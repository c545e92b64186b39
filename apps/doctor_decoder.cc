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

namespace penstock {
namespace {

// The longest sequence that is run, if the model's own context is not shorter.
constexpr int32_t kContext = 1024;

class DecoderDoctor {
 public:
  DecoderDoctor(const DecoderPlace& place, const ModelOptions& flags, const SayOfCheck& say)
      : place_(place), flags_(flags), say_(say) {}

  void Run(const AccuracyFlags& accuracy) {
    auto loaded = LoadAsAsked();
    if (!loaded.ok()) {
      return say_(Verdict::kFailed, "load",
                  loaded.status().Annotate("cannot load model '" + place_.name + "'").message());
    }
    CheckSubject subject;
    subject.tokenizer = loaded->model->tokenizer.get();
    const auto results = DecoderResultsOf(*std::move(loaded), [this] { return Load(1); });
    subject.results = results.get();
    subject.kernels = CheckKernels;
    subject.accuracy = [&](const Say& say) { return Compare(accuracy, say); };
    ReportChecks(CheckTime::kDoctor, subject, say_);
  }

 private:
  Expected<std::unique_ptr<Backend>> BackendOf(int threads) const {
    PENSTOCK_ASSIGN_OR_RETURN(DeviceOptions options, DeviceAsked(flags_));
    options.threads = threads;
    return NewBackend(options);
  }
  Expected<std::unique_ptr<TextModel>> ModelOn(Backend* backend, std::optional<DType> dtype) const {
    TextModelOptions options;
    options.dtype = dtype;
    options.context = context_;
    return TextModel::Load(place_.path, backend, options);
  }
  Expected<HeldDecoder> Load(int threads) const {
    HeldDecoder loaded;
    PENSTOCK_ASSIGN_OR_RETURN(loaded.backend, BackendOf(threads));
    PENSTOCK_ASSIGN_OR_RETURN(loaded.model, ModelOn(loaded.backend.get(), dtype_));
    return loaded;
  }

  Expected<HeldDecoder> LoadAsAsked() {
    PENSTOCK_ASSIGN_OR_RETURN(dtype_, TypeAsked(flags_));
    PENSTOCK_ASSIGN_OR_RETURN(const DecoderFiles files, DecoderFiles::Open(place_.path));
    context_ = std::min(files.config.context, kContext);
    PENSTOCK_ASSIGN_OR_RETURN(HeldDecoder loaded, Load(flags_.threads));
    std::vector<std::string> types;
    for (const StoredType& type : TypesInFiles(*files.store)) {
      types.emplace_back(DTypeName(type.dtype));
    }
    say_(Verdict::kOk, "load",
         fmt::format("{}: generation, {}, {} parameters stored as {}, computed in {}, {}",
                     place_.name, files.config.architecture, files.parameters,
                     fmt::join(types, ", "), ComputedTypes(*loaded.model->decoder),
                     loaded.backend->name()));
    return loaded;
  }

  Status Compare(const AccuracyFlags& accuracy, const Say& say) const {
    if (SkipAccuracy(accuracy, say)) return Status::Ok();
    PENSTOCK_ASSIGN_OR_RETURN(const auto backend, BackendOf(flags_.threads));
    return CompareDecoderTypes(
        [&](std::optional<DType> dtype) { return ModelOn(backend.get(), dtype); }, accuracy, say);
  }

  const DecoderPlace& place_;
  const ModelOptions& flags_;
  const SayOfCheck& say_;
  int32_t context_ = 0;
  std::optional<DType> dtype_;
};

}  // namespace

void DiagnoseDecoder(const DecoderPlace& place, const ModelOptions& model,
                     const AccuracyFlags& accuracy, const SayOfCheck& say) {
  DecoderDoctor(place, model, say).Run(accuracy);
}

}  // namespace penstock
