// Registry: how a reference becomes a model: a hub reference, a folder or a file on this machine.
#include <fmt/format.h>

#include "hub/hub.h"
#include "hub/reference.h"
#include "log/log.h"
#include "registry/registry_impl.h"

namespace penstock::registry {
namespace {

// The folder or file of a model whose files tell its kind, downloaded if need be.
Expected<std::string> Resolve(const ModelSpec& spec, const std::atomic<bool>& stopping) {
  hub::ResolveOptions resolve;
  resolve.offline = spec.fetched;
  resolve.progress = [&, file = std::string()](const hub::HubProgress& progress) mutable {
    if (progress.bytes_total > 0 && spec.download_percent != nullptr) {
      *spec.download_percent = static_cast<int>(progress.bytes_done * 100 / progress.bytes_total);
    }
    if (file != progress.file) {
      file = progress.file;
      LogInfo("{}: downloading {} ({:.1f} MB)", spec.name, file, progress.file_bytes_total / 1e6);
    }
    return !stopping.load(std::memory_order_relaxed);
  };
  return hub::ResolveModel(spec.reference, resolve);
}

// Where Resolve would find it without a download.
Expected<std::string> ResolveHere(const ModelSpec& spec, bool complete = false) {
  hub::ResolveOptions resolve;
  resolve.offline = true;
  resolve.complete = complete;
  return hub::ResolveModel(spec.reference, resolve);
}

// Files that tell no kind are left to the usual one, which says what is wrong with them.
Expected<engine::PlacedModel> PlaceOf(const ModelSpec& spec, const std::atomic<bool>& stopping) {
  if (auto place = engine::PlaceByName(spec.reference)) return *std::move(place);
  PENSTOCK_ASSIGN_OR_RETURN(std::string path, Resolve(spec, stopping));
  const auto kind = engine::KindAt(path);
  return engine::PlacedModel{kind.ok() ? *kind : &engine::KindOf(engine::kUsualCapability),
                             std::move(path)};
}

Expected<engine::ModelPurpose> LookAt(const ModelSpec& spec, const engine::PlacedModel& place) {
  PENSTOCK_ASSIGN_OR_RETURN(const engine::ModelPurpose found,
                            place.kind->look(place.path, spec.options));
  if (!spec.purpose || *spec.purpose == found) return found;
  return Status::InvalidArgument(
      fmt::format("its task is {}, not {}", engine::ModelPurposeName(found),
                  engine::ModelPurposeName(*spec.purpose)),
      "task");
}

Expected<std::optional<engine::ModelPurpose>> LookAtReference(const ModelSpec& spec) {
  std::optional<engine::PlacedModel> place = engine::PlaceByName(spec.reference);
  if (!place) {
    auto path = ResolveHere(spec);
    if (!path.ok()) {
      if (hub::ModelReference::Parse(spec.reference).ok())
        return std::optional<engine::ModelPurpose>();
      return std::move(path).status();
    }
    PENSTOCK_ASSIGN_OR_RETURN(const engine::EngineKind* const kind, engine::KindAt(*path));
    place = engine::PlacedModel{kind, *std::move(path)};
  }
  PENSTOCK_ASSIGN_OR_RETURN(const engine::ModelPurpose found, LookAt(spec, *place));
  return std::optional(found);
}

// Null also where the files are broken: the load says why.
std::shared_ptr<const engine::FileFacts> DescribeFiles(const ModelSpec& spec) {
  if (engine::PlaceByName(spec.reference)) return nullptr;
  const auto path = ResolveHere(spec);
  if (!path.ok()) return nullptr;
  const auto kind = engine::KindAt(*path);
  if (!kind.ok() || (*kind)->facts == nullptr) return nullptr;
  auto facts = (*kind)->facts(*path, spec.options);
  return facts.ok() ? std::make_shared<const engine::FileFacts>(*std::move(facts)) : nullptr;
}

}  // namespace

void Registry::Impl::UseModelFiles() {
  looker = LookAtReference;
  if (options.on_demand) describer = DescribeFiles;
  if (devices.host().backend != nullptr && !fetcher.fetch) {
    fetcher.is_here = [](const ModelSpec& spec) {
      return engine::PlaceByName(spec.reference) || ResolveHere(spec, /*complete=*/true).ok();
    };
    fetcher.fetch = [this](const ModelSpec& spec) { return Resolve(spec, stopping).status(); };
  }
  const auto backend_of = [this](const ModelSpec& spec) {
    return devices.Find(spec.device)->backend;
  };
  if (!sizer) {
    sizer = [this, backend_of](const ModelSpec& spec) -> Expected<engine::ModelNeeds> {
      PENSTOCK_ASSIGN_OR_RETURN(const engine::PlacedModel place, PlaceOf(spec, stopping));
      return place.kind->needs(place.path, spec.options, backend_of(spec));
    };
  }
  loader = [this, backend_of](const ModelSpec& spec) -> Expected<std::unique_ptr<engine::Model>> {
    program::Backend* const backend = backend_of(spec);
    if (backend == nullptr) return Status::Unsupported("there is no backend to load a model for");
    PENSTOCK_ASSIGN_OR_RETURN(const engine::PlacedModel place, PlaceOf(spec, stopping));
    if (spec.purpose) PENSTOCK_RETURN_IF_ERROR(LookAt(spec, place).status());
    return place.kind->load(place.path, spec.options, backend, metrics);
  };
}

}  // namespace penstock::registry
