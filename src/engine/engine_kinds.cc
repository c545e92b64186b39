#include "engine/engine_kinds.h"

#include <algorithm>

#include "families/model_kind.h"
#include "hub/cache.h"

namespace penstock::engine {
namespace {

// A loaded engine as a Model.
template <typename Engine>
Expected<std::unique_ptr<Model>> AsModel(Expected<std::unique_ptr<Engine>> loaded) {
  PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, std::move(loaded));
  return model;
}

Expected<FileFacts> TextFacts(const std::string& path, const KindOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(FileFacts facts, ReadFileFacts(path, options.decoder.chat_template));
  if (const int32_t context = options.decoder.model.context; facts.generates && context > 0) {
    facts.max_tokens = std::min(facts.max_tokens, context);
  }
  return facts;
}

Expected<ModelNeeds> TextNeeds(const std::string& path, const KindOptions& options,
                               program::Backend* backend) {
  return ModelNeedsOf(path, options.encoder, options.decoder, backend);
}

constexpr EngineKind kKinds[] = {
    {
        .capability = Capability::kEncode,
        .path_of = nullptr,
        .look = [](const std::string& path, const KindOptions&) -> Expected<ModelPurpose> {
          PENSTOCK_ASSIGN_OR_RETURN(const families::ModelFolder folder,
                                    families::ModelFolder::Read(path));
          return ModelPurpose{.task = folder.task};
        },
        .needs = TextNeeds,
        .facts = TextFacts,
        .load =
            [](const std::string& path, const KindOptions& options, program::Backend* backend,
               metrics::Metrics* metrics) {
              EncoderEngineOptions made = options.encoder;
              made.revision = hub::CommitOfPath(path);
              return AsModel(EncoderEngine::Load(path, made, backend, metrics));
            },
        .add_metrics = sched::EncoderScheduler::RegisterMetrics,
    },
    {
        .capability = Capability::kGenerate,
        .path_of = nullptr,
        .look = [](const std::string&, const KindOptions&) -> Expected<ModelPurpose> {
          return ModelPurpose{.capability = Capability::kGenerate};
        },
        .needs = TextNeeds,
        .facts = TextFacts,
        .load =
            [](const std::string& path, const KindOptions& options, program::Backend* backend,
               metrics::Metrics* metrics) {
              DecoderEngineOptions made = options.decoder;
              made.revision = hub::CommitOfPath(path);
              return AsModel(DecoderEngine::Load(path, made, backend, metrics));
            },
        .add_metrics = sched::EncoderScheduler::RegisterMetrics,
    },
    {
        .capability = Capability::kTensors,
        .path_of = TensorModelPath,
        .look = [](const std::string& path, const KindOptions& options) -> Expected<ModelPurpose> {
          PENSTOCK_RETURN_IF_ERROR(TensorNeedsOf(path, options.tensors).status());
          return ModelPurpose{.capability = Capability::kTensors};
        },
        .needs = [](const std::string& path, const KindOptions& options,
                    program::Backend*) { return TensorNeedsOf(path, options.tensors); },
        .facts = nullptr,
        .load =
            [](const std::string& path, const KindOptions& options, program::Backend* backend,
               metrics::Metrics* metrics) {
              return AsModel(TensorEngine::Load(path, options.tensors, backend, metrics));
            },
        .add_metrics = nullptr,
    },
};

}  // namespace

void KindOptions::Set(const LoadTerms& terms) {
  encoder.name = decoder.name = tensors.name = terms.name;
  encoder.granted = decoder.granted = tensors.granted = terms.granted;
  encoder.replicas = tensors.replicas = terms.replicas;
  tensors.version = terms.version;
  if (!terms.before.batch_times.known()) return;
  encoder.scheduler.times = terms.before.batch_times;
  encoder.scheduler.max_batch_tokens = terms.before.batch_tokens;
}

std::span<const EngineKind> EngineKinds() { return kKinds; }

const EngineKind& KindOf(Capability capability) {
  return *std::find_if(std::begin(kKinds), std::end(kKinds), [capability](const EngineKind& kind) {
    return kind.capability == capability;
  });
}

std::optional<PlacedModel> PlaceByName(const std::string& reference) {
  for (const EngineKind& kind : kKinds) {
    if (kind.path_of == nullptr) continue;
    if (auto path = kind.path_of(reference)) return PlacedModel{&kind, *std::move(path)};
  }
  return std::nullopt;
}

Expected<const EngineKind*> KindAt(const std::string& path) {
  PENSTOCK_ASSIGN_OR_RETURN(const families::ModelKind kind, families::KindOfModel(path));
  return &KindOf(kind == families::ModelKind::kDecoder ? Capability::kGenerate
                                                       : Capability::kEncode);
}

}  // namespace penstock::engine
