#include "registry/registry.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/log.h"
#include "engine/text_engine.h"
#include "formats/model_kind.h"
#include "hub/cache.h"
#include "hub/hub.h"
#include "hub/reference.h"
#include "registry/registry_impl.h"

namespace penstock {

namespace {

// "name" for "owner/name"; "owner/name" and "name" for "owner--name".
std::vector<std::string> LastParts(const std::string& name) {
  std::vector<std::string> parts;
  std::string path = name;
  if (const size_t dashes = name.find("--");
      name.find('/') == std::string::npos && dashes != std::string::npos && dashes > 0) {
    path.replace(dashes, 2, "/");
    parts.push_back(path);
  }
  const size_t slash = path.rfind('/');
  if (slash != std::string::npos) parts.push_back(path.substr(slash + 1));
  std::erase(parts, "");
  return parts;
}

// The folder or file of a text model, downloaded if need be.
Expected<std::string> Resolve(const ModelSpec& spec, const std::atomic<bool>& stopping) {
  ResolveOptions resolve;
  resolve.offline = spec.fetched;
  resolve.progress = [&, file = std::string()](const HubProgress& progress) mutable {
    if (progress.bytes_total > 0 && spec.download_percent != nullptr) {
      *spec.download_percent = static_cast<int>(progress.bytes_done * 100 / progress.bytes_total);
    }
    if (file != progress.file) {
      file = progress.file;
      LogInfo("{}: downloading {} ({:.1f} MB)", spec.name, file, progress.file_bytes_total / 1e6);
    }
    return !stopping.load(std::memory_order_relaxed);
  };
  return ResolveModel(spec.reference, resolve);
}

// Whether Resolve would download nothing.
bool IsHere(const ModelSpec& spec) {
  if (TensorModelPath(spec.reference)) return true;
  ResolveOptions resolve;
  resolve.offline = resolve.complete = true;
  return ResolveModel(spec.reference, resolve).ok();
}

// Of the text model at `path`, from its settings alone.
Expected<ModelPurpose> PurposeOf(const std::string& path) {
  PENSTOCK_ASSIGN_OR_RETURN(const ModelKind kind, KindOfModel(path));
  if (kind == ModelKind::kDecoder) return ModelPurpose{.generates = true};
  PENSTOCK_ASSIGN_OR_RETURN(const ModelFolder folder, ModelFolder::Read(path));
  return ModelPurpose{.task = folder.task};
}

Status CheckPurpose(const ModelSpec& spec, const ModelPurpose& found) {
  if (!spec.purpose || *spec.purpose == found) return Status::Ok();
  return Status::InvalidArgument(fmt::format("its task is {}, not {}", ModelPurposeName(found),
                                             ModelPurposeName(*spec.purpose)),
                                 "task");
}

// The options of a tensor model.
TensorEngineOptions TensorOptions(const ModelSpec& spec) {
  TensorEngineOptions options = spec.tensors;
  options.name = spec.name;
  options.version = spec.version;
  options.granted = spec.granted;
  return options;
}

Expected<std::unique_ptr<Model>> LoadReference(ModelSpec spec, Backend* backend, Metrics* metrics,
                                               const std::atomic<bool>& stopping) {
  if (backend == nullptr) return Status::Unsupported("there is no backend to load a model for");
  if (const auto path = TensorModelPath(spec.reference)) {
    PENSTOCK_RETURN_IF_ERROR(CheckPurpose(spec, {.tensors = true}));
    PENSTOCK_ASSIGN_OR_RETURN(std::unique_ptr<Model> model,
                              TensorEngine::Load(*path, TensorOptions(spec), backend, metrics));
    return model;
  }
  PENSTOCK_ASSIGN_OR_RETURN(const std::string folder, Resolve(spec, stopping));
  if (spec.purpose) {
    PENSTOCK_ASSIGN_OR_RETURN(const ModelPurpose found, PurposeOf(folder));
    PENSTOCK_RETURN_IF_ERROR(CheckPurpose(spec, found));
  }
  spec.options.granted = spec.text.granted = spec.granted;
  std::unique_ptr<Model> model;
  if (const auto kind = KindOfModel(folder); kind.ok() && *kind == ModelKind::kDecoder) {
    spec.text.name = spec.name;
    spec.text.revision = CommitOfPath(folder);
    PENSTOCK_ASSIGN_OR_RETURN(model, TextEngine::Load(folder, spec.text, backend, metrics));
  } else {
    spec.options.revision = CommitOfPath(folder);
    PENSTOCK_ASSIGN_OR_RETURN(model, Engine::Load(folder, spec.options, backend, metrics));
  }
  return model;
}

}  // namespace

const char* ModelStateName(ModelState state) {
  switch (state) {
    case ModelState::kWaiting:
      return "waiting";
    case ModelState::kLoading:
      return "loading";
    case ModelState::kReady:
      return "ready";
    case ModelState::kFailed:
      return "failed";
    case ModelState::kDraining:
      return "draining";
    case ModelState::kParked:
      return "parked";
    case ModelState::kAbsent:
      break;
  }
  return "absent";
}

const char* ModelPurposeName(const ModelPurpose& purpose) {
  if (purpose.generates) return "generation";
  return purpose.tensors ? "tensors" : ModelTaskName(purpose.task);
}

Expected<ModelPurpose> ParseModelPurpose(const std::string& name) {
  if (name == "generation" || name == "generate") return ModelPurpose{.generates = true};
  if (name == "tensors") return ModelPurpose{.tensors = true};
  using Named = std::pair<const char*, ModelTask>;
  for (const auto& [verb, task] :
       {Named{"embed", ModelTask::kEmbedding}, Named{"rerank", ModelTask::kReranking},
        Named{"classify", ModelTask::kClassification}}) {
    if (name == verb || name == ModelTaskName(task)) return ModelPurpose{.task = task};
  }
  return Status::InvalidArgument(
      fmt::format("'{:.100}' is no task; known: embedding, reranking, classification, generation, "
                  "tensors",
                  name),
      "task");
}

Expected<std::optional<ModelPurpose>> Registry::Impl::LookAtReference(const ModelSpec& spec) {
  if (const auto path = TensorModelPath(spec.reference)) {
    constexpr ModelPurpose kTensors{.tensors = true};
    PENSTOCK_RETURN_IF_ERROR(CheckPurpose(spec, kTensors));
    PENSTOCK_RETURN_IF_ERROR(TensorNeedsOf(*path, TensorOptions(spec)).status());
    return std::optional(kTensors);
  }
  ResolveOptions resolve;
  resolve.offline = true;
  const auto folder = ResolveModel(spec.reference, resolve);
  if (!folder.ok()) {
    if (ModelReference::Parse(spec.reference).ok()) return std::optional<ModelPurpose>();
    return folder.status();
  }
  PENSTOCK_ASSIGN_OR_RETURN(const ModelPurpose found, PurposeOf(*folder));
  PENSTOCK_RETURN_IF_ERROR(CheckPurpose(spec, found));
  return std::optional(found);
}

std::shared_ptr<const FileFacts> Registry::Impl::DescribeFiles(const ModelSpec& spec) {
  if (TensorModelPath(spec.reference)) return nullptr;
  ResolveOptions resolve;
  resolve.offline = true;
  const auto path = ResolveModel(spec.reference, resolve);
  if (!path.ok()) return nullptr;
  auto facts = ReadFileFacts(*path, spec.text.chat_template);
  if (!facts.ok()) return nullptr;  // its load says why
  if (const int32_t context = spec.text.model.context; facts->generates && context > 0) {
    facts->max_tokens = std::min(facts->max_tokens, context);
  }
  return std::make_shared<const FileFacts>(*std::move(facts));
}

Registry::Registry(Backend* backend, Metrics* metrics, Loader loader, RegistryOptions options,
                   Sizer sizer, Fetcher fetcher)
    : impl_(std::make_unique<Impl>()) {
  impl_->backend = backend;
  impl_->metrics = metrics;
  impl_->options = options;
  if (!loader) impl_->looker = Impl::LookAtReference;
  if (!loader && options.on_demand) impl_->describer = Impl::DescribeFiles;
  impl_->sizer = std::move(sizer);
  impl_->fetcher = std::move(fetcher);
  if (!loader && backend != nullptr && !impl_->fetcher.fetch) {
    impl_->fetcher = {IsHere, [impl = impl_.get()](const ModelSpec& spec) {
                        return Resolve(spec, impl->stopping).status();
                      }};
  }
  if (!loader && !impl_->sizer) {
    impl_->sizer = [backend, impl = impl_.get()](const ModelSpec& spec) -> Expected<ModelNeeds> {
      if (const auto tensors = TensorModelPath(spec.reference)) {
        return TensorNeedsOf(*tensors, TensorOptions(spec));
      }
      PENSTOCK_ASSIGN_OR_RETURN(const std::string path, Resolve(spec, impl->stopping));
      return ModelNeedsOf(path, spec.options, spec.text, backend);
    };
  }
  impl_->loader = loader ? std::move(loader)
                         : [backend, metrics, impl = impl_.get()](
                               const ModelSpec& spec) -> Expected<std::unique_ptr<Model>> {
    return LoadReference(spec, backend, metrics, impl->stopping);
  };
  impl_->PublishNames();
}

bool Registry::Impl::Slot::IsNamed(const std::string& name) const {
  return spec.name == name ||
         std::find(spec.aliases.begin(), spec.aliases.end(), name) != spec.aliases.end();
}

std::optional<ModelPurpose> Registry::Impl::Slot::Purpose() const {
  if (IsUnknown()) return std::nullopt;
  if (generates) return ModelPurpose{.generates = true};
  if (runs_tensors) return ModelPurpose{.tensors = true};
  return ModelPurpose{.task = static_cast<ModelTask>(task.load())};
}

void Registry::Impl::Slot::SetPurpose(const ModelPurpose& purpose) {
  generates = purpose.generates;
  runs_tensors = purpose.tensors;
  if (purpose.encodes()) task = static_cast<int>(purpose.task);
}

std::vector<std::string> Registry::Impl::Slot::Aliases() const {
  std::vector<std::string> all = spec.aliases;
  all.insert(all.end(), last_parts.begin(), last_parts.end());
  return all;
}

Status Registry::Impl::Check(const ModelSpec& spec, const Slot* replaced) const {
  const auto counts = [&](const Slot& slot) { return slot.served && &slot != replaced; };
  if (static_cast<size_t>(std::count_if(slots.begin(), slots.end(), counts)) >= kModelsMax) {
    return {StatusCode::kPayloadTooLarge, fmt::format("at most {} models", kModelsMax), "model"};
  }
  std::vector<std::string> names = spec.aliases;
  names.push_back(spec.name);
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) return Status::InvalidArgument("a model's name is empty", "model");
    if (std::find(names.begin(), names.begin() + i, names[i]) != names.begin() + i) {
      return Status::InvalidArgument(
          fmt::format("the name '{}' is given twice to {}", names[i], spec.reference), "model");
    }
    for (const Slot& slot : slots) {
      if (!counts(slot) || !slot.IsNamed(names[i])) continue;
      return Status::InvalidArgument(fmt::format("two models are named '{}': {} and {}", names[i],
                                                 slot.spec.reference, spec.reference),
                                     "model");
    }
  }
  return Status::Ok();
}

// Works out the short names of all models anew, after one was added. Two models that share a last
// part both lose it. The caller holds the lock.
void Registry::Impl::NameLastParts() {
  const std::vector<Slot*> all = Served();
  std::vector<std::vector<std::string>> wanted;
  for (const Slot* slot : all) {
    std::vector<std::string> parts = LastParts(slot->spec.name);
    for (const std::string& alias : slot->spec.aliases) {
      for (std::string& part : LastParts(alias)) parts.push_back(std::move(part));
    }
    std::vector<std::string>& own = wanted.emplace_back();
    for (std::string& part : parts) {
      if (std::find(own.begin(), own.end(), part) == own.end()) own.push_back(std::move(part));
    }
  }
  const auto wants = [&](size_t i, const std::string& part) {
    return std::find(wanted[i].begin(), wanted[i].end(), part) != wanted[i].end();
  };
  for (size_t i = 0; i < all.size(); ++i) {
    all[i]->last_parts.clear();
    for (const std::string& part : wanted[i]) {
      bool free = !all[i]->IsNamed(part);
      for (size_t j = 0; j < all.size(); ++j) {
        free = free && (j == i || (!all[j]->IsNamed(part) && !wants(j, part)));
      }
      if (free) all[i]->last_parts.push_back(part);
    }
  }
}

// With the lock held.
void Registry::Impl::PublishNames() {
  auto made = std::make_unique<Names>();
  made->slots = Served();
  for (Slot* slot : made->slots) {
    made->slot_of.emplace(slot->spec.name, slot);
    for (const std::string& alias : slot->Aliases()) made->slot_of.emplace(alias, slot);
  }
  all_names.push_back(std::move(made));
  published.store(all_names.back().get(), std::memory_order_release);
}

std::vector<Registry::Impl::Slot*> Registry::Impl::Served() {
  std::vector<Slot*> all;
  for (Slot& slot : slots) {
    if (slot.served) all.push_back(&slot);
  }
  return all;
}

// With the lock held. Readers do not see it before PublishNames.
Registry::Impl::Slot* Registry::Impl::AddSlot(ModelSpec spec) {
  slots.emplace_back(this, std::move(spec));
  NameLastParts();
  return &slots.back();
}

Status Registry::Add(ModelSpec spec) {
  PENSTOCK_RETURN_IF_ERROR(CanAdd(spec));
  spec.options.name = spec.name;
  std::optional<ModelPurpose> purpose = spec.purpose;
  std::optional<RefusedVersion> refused;
  while (impl_->options.on_demand && impl_->looker) {
    auto found = impl_->looker(spec);
    if (found.ok()) {
      if (*found) purpose = *found;
      break;
    }
    if (!Impl::StepBack(found.status(), &spec, &refused)) {
      return found.status().Annotate("cannot load model '" + spec.name + "'");
    }
  }
  auto facts = impl_->describer ? impl_->describer(spec) : nullptr;
  const std::lock_guard lock(impl_->mutex);
  if (impl_->stopping) return {StatusCode::kUnavailable, "the models are being stopped"};
  PENSTOCK_RETURN_IF_ERROR(impl_->Check(spec));  // it may have changed meanwhile
  if (!purpose || !purpose->tensors) {
    EncoderScheduler::RegisterMetrics(spec.name, impl_->metrics);
  }
  Impl::Slot* const slot = impl_->AddSlot(std::move(spec));
  slot->refused = std::move(refused);
  slot->facts = std::move(facts);
  impl_->RegisterMetrics(slot);
  if (purpose) slot->SetPurpose(*purpose);
  if (impl_->loading_started) impl_->QueueFirst(slot);
  impl_->PublishNames();
  return Status::Ok();
}

// Read as they are printed: of a slot, which lives as long as the registry.
void Registry::Impl::RegisterMetrics(Slot* slot) {
  if (metrics == nullptr) return;
  const std::string model = MetricLabel("model", slot->spec.name);
  slot->loads_total =
      &metrics->AddCounter("penstock_model_loads_total", "Models that were loaded.", model);
  slot->evictions_total =
      &metrics->AddCounter("penstock_model_evictions_total",
                           "Models that were unloaded for the memory of others.", model);
  slot->load_seconds = std::make_shared<std::atomic<double>>(0);
  metrics->AddFunction(
      "penstock_model_load_seconds", "How long a model's last load took.", Metrics::Kind::kGauge,
      [value = slot->load_seconds] { return value->load(); }, model);
  slot->loaded_gauge =
      &metrics->AddGauge("penstock_model_loaded", "1 while a model is in memory.", model);
  const auto bytes = [&](const char* name) {
    return &metrics->AddGauge("penstock_model_bytes",
                              "Memory that a loaded model may take at most, by class.",
                              model + "," + MetricLabel("class", name));
  };
  slot->bytes_gauges = {bytes("weights"), bytes("activations"), bytes("cache")};
}

// With the lock held.
void Registry::Impl::Charge(Slot* slot, const ModelBytes& bytes) {
  slot->charged = bytes;
  if (slot->loaded_gauge == nullptr) return;
  // Versions of a model share its series.
  ModelBytes all;
  for (const Slot& one : slots) {
    if (one.loaded_gauge != slot->loaded_gauge) continue;
    all.weights += one.charged.weights;
    all.activations += one.charged.activations;
    all.cache += one.charged.cache;
  }
  slot->loaded_gauge->Set(all.total() > 0);
  slot->bytes_gauges[0]->Set(static_cast<int64_t>(all.weights));
  slot->bytes_gauges[1]->Set(static_cast<int64_t>(all.activations));
  slot->bytes_gauges[2]->Set(static_cast<int64_t>(all.cache));
}

Status Registry::AddEngine(std::unique_ptr<Engine> engine, std::vector<std::string> aliases) {
  const std::lock_guard lock(impl_->mutex);
  ModelSpec spec;
  spec.name = engine->name();
  spec.aliases = std::move(aliases);
  spec.reference = engine->folder().path;
  spec.options = engine->options();
  spec.options.replicas = static_cast<int32_t>(engine->scheduler().replicas());
  PENSTOCK_RETURN_IF_ERROR(impl_->Check(spec));
  impl_->SetReady(impl_->AddSlot(std::move(spec)), std::move(engine));
  impl_->PublishNames();
  return Status::Ok();
}

void Registry::AcceptAnyName() { impl_->any_name = true; }

Registry::Impl::Slot* Registry::Impl::SlotOf(const std::string& name) const {
  const auto& slot_of = names().slot_of;
  const auto found = slot_of.find(name);
  return found == slot_of.end() ? nullptr : found->second;
}

bool Registry::Has(const std::string& name) const { return impl_->SlotOf(name) != nullptr; }

Status Registry::Impl::StillLoading(const Slot& slot) const {
  return Status(StatusCode::kUnavailable,
                fmt::format("model '{}' is still being loaded", slot.spec.name), "model")
      .WithRetryAfter(1);
}

Status Registry::Impl::TakeLease(Slot* slot) const {
  if (slot->TryAdd()) {
    slot->Use();
    return Status::Ok();
  }
  const std::lock_guard lock(mutex);
  if (slot->IsPending()) return StillLoading(*slot);
  if (slot->state == ModelState::kFailed) {
    return Status(StatusCode::kUnavailable, slot->error.message(), "model");
  }
  if (slot->TryAdd()) return Status::Ok();  // it may have come meanwhile
  return Status(StatusCode::kUnavailable, fmt::format("model '{}' is not loaded", slot->spec.name),
                "model")
      .WithRetryAfter(1);
}

Expected<EngineLease> Registry::Impl::Get(Slot* slot) const {
  if (!slot->generates && !slot->runs_tensors) {
    PENSTOCK_RETURN_IF_ERROR(TakeLease(slot));
    EngineLease lease(slot, slot->encoder);
    if (lease) return lease;
  }
  return Status::Unsupported(
      fmt::format("model '{}' {}; it gives no vectors and no scores of texts", slot->spec.name,
                  slot->runs_tensors ? "takes and gives tensors" : "generates text"),
      "model");
}

Expected<TextLease> Registry::Impl::GetText(Slot* slot) const {
  if (slot->generates || slot->IsUnknown()) {
    PENSTOCK_RETURN_IF_ERROR(TakeLease(slot));
    TextLease lease(slot, slot->generator);
    if (lease) return lease;
  }
  return Status::Unsupported(fmt::format("model '{}' generates no text", slot->spec.name), "model");
}

Expected<TensorLease> Registry::Impl::GetTensors(Slot* slot) const {
  if (slot->runs_tensors || slot->IsUnknown()) {
    PENSTOCK_RETURN_IF_ERROR(TakeLease(slot));
    TensorLease lease(slot, slot->tensors);
    if (lease) return lease;
  }
  return Status::Unsupported(fmt::format("model '{}' takes texts, not tensors", slot->spec.name),
                             "model");
}

Expected<Registry::Impl::Slot*> Registry::Impl::OnlyTensors() const {
  Slot* found = nullptr;
  for (Slot* slot : names().slots) {
    if (slot->MayDoAnything()) return StillLoading(*slot);
    if (!slot->runs_tensors) continue;
    if (found != nullptr) {
      return Status::InvalidArgument(
          fmt::format("no model is named, and several take tensors: '{}', '{}'", found->spec.name,
                      slot->spec.name),
          "model");
    }
    found = slot;
  }
  return found;
}

Expected<Registry::Impl::Slot*> Registry::Impl::Generating(bool only) const {
  Slot* found = nullptr;
  for (Slot* slot : names().slots) {
    if (slot->MayDoAnything()) return StillLoading(*slot);
    if (!slot->generates) continue;
    if (!only) return slot;
    if (found != nullptr) return static_cast<Slot*>(nullptr);
    found = slot;
  }
  return found;
}

Expected<EngineLease> Registry::Impl::FirstOf(std::optional<ModelTask> task) const {
  const std::vector<Slot*>& all = names().slots;
  if (all.empty()) return Status::NotFound("no model is served", "model");
  // The task of a model that was never loaded is unknown, so the first of a task is known only when
  // all before it were loaded.
  for (Slot* slot : all) {
    if (slot->MayDoAnything()) return StillLoading(*slot);
    if (slot->Does(task)) return Get(slot);
  }
  return Get(all.front());
}

// The model of an unknown name, where any name is accepted.
Expected<EngineLease> Registry::Impl::AnyOf(const std::string& name,
                                            std::optional<ModelTask> task) const {
  Slot* found = nullptr;
  for (Slot* slot : names().slots) {
    // This may be a second model of the task; then the name would be unknown.
    if (slot->MayDoAnything()) return StillLoading(*slot);
    if (!slot->Does(task)) continue;
    if (found != nullptr) return Unknown(name);
    found = slot;
  }
  if (found == nullptr) return FirstOf(task);  // no model of the task: the caller refuses
  return Get(found);
}

Status Registry::Impl::Unknown(const std::string& name) const {
  std::string served;
  {
    const std::lock_guard lock(mutex);
    for (const Slot& slot : slots) {
      if (!slot.served) continue;
      served += served.empty() ? "" : ", ";
      served += slot.spec.name;
      for (const std::string& alias : slot.Aliases()) served += ", " + alias;
    }
  }
  // The name came from outside and may be long.
  return Status::NotFound(fmt::format("no model is served as '{:.200}'; served: {}", name, served),
                          "model");
}

Expected<EngineLease> Registry::Find(const std::string& name, std::optional<ModelTask> task) const {
  return impl_->LookUp([&]() -> Expected<EngineLease> {
    if (impl_->names().slots.empty()) return Status::NotFound("no model is served", "model");
    if (name.empty()) return impl_->FirstOf(task);
    if (Impl::Slot* slot = impl_->SlotOf(name)) return impl_->Get(slot);
    return impl_->any_name ? impl_->AnyOf(name, task) : impl_->Unknown(name);
  });
}

Expected<TextLease> Registry::FindText(const std::string& name) const {
  return impl_->LookUp([&]() -> Expected<TextLease> {
    if (impl_->names().slots.empty()) return Status::NotFound("no model is served", "model");
    if (Impl::Slot* slot = impl_->SlotOf(name)) return impl_->GetText(slot);
    if (!name.empty() && !impl_->any_name) return impl_->Unknown(name);
    PENSTOCK_ASSIGN_OR_RETURN(Impl::Slot* const slot, impl_->Generating(!name.empty()));
    if (slot != nullptr) return impl_->GetText(slot);
    if (!name.empty()) return impl_->Unknown(name);
    return Status::NotFound("no model that generates text is served", "model");
  });
}

Expected<TensorLease> Registry::FindTensors(const std::string& name) const {
  return impl_->LookUp([&]() -> Expected<TensorLease> {
    if (Impl::Slot* slot = impl_->SlotOf(name)) return impl_->GetTensors(slot);
    if (impl_->names().slots.empty()) return Status::NotFound("no model is served", "model");
    if (!name.empty() && !impl_->any_name) return impl_->Unknown(name);
    PENSTOCK_ASSIGN_OR_RETURN(Impl::Slot* const slot, impl_->OnlyTensors());
    if (slot != nullptr) return impl_->GetTensors(slot);
    if (!name.empty()) return impl_->Unknown(name);
    return Status::NotFound("no tensor model is served", "model");
  });
}

std::optional<Registry::KnownModel> Registry::Look(const std::string& name,
                                                   const ModelUse& use) const {
  const Impl::Slot* const slot = impl_->Target(name, use);
  const auto purpose = slot == nullptr ? std::nullopt : slot->Purpose();
  if (!purpose) return std::nullopt;
  return KnownModel{slot->spec.name, *purpose};
}

std::vector<Registry::Entry> Registry::List() const {
  const std::lock_guard lock(impl_->mutex);
  std::vector<Entry> entries;
  for (Impl::Slot& slot : impl_->slots) {
    if (!slot.served) continue;
    EngineLease lease;
    TextLease text;
    TensorLease tensors;
    if (slot.TryAdd()) {
      lease = EngineLease(&slot, slot.encoder);
      if (slot.generator != nullptr && slot.TryAdd()) text = TextLease(&slot, slot.generator);
      if (slot.tensors != nullptr && slot.TryAdd()) tensors = TensorLease(&slot, slot.tensors);
    }
    Entry& entry = entries.emplace_back();
    entry.name = slot.spec.name;
    entry.aliases = slot.Aliases();
    entry.reference = slot.spec.reference;
    // One that is closed once an answer under way has its lease takes no more requests.
    entry.state = slot.close_wanted ? ModelState::kDraining : slot.state.load();
    entry.error = slot.error;
    entry.version = slot.spec.version;
    entry.refused = slot.refused;
    entry.purpose = slot.Purpose();
    entry.replicas = slot.runs_tensors ? slot.spec.tensors.replicas : slot.spec.options.replicas;
    entry.pinned = slot.pinned;
    entry.keep_alive = slot.KeptFor();
    entry.load_s = slot.load_s;
    entry.loads = slot.loads;
    entry.last_use = Clock::time_point(std::chrono::nanoseconds(slot.last_use_ns.load()));
    entry.requests_waiting = slot.waiters;
    entry.evictions = slot.evictions;
    entry.bytes = slot.charged;
    entry.facts = slot.facts;
    entry.load_percent = impl_->LoadPercent(slot);
    entry.engine = std::move(lease);
    entry.text = std::move(text);
    entry.tensors = std::move(tensors);
  }
  return entries;
}

// Percent of the download, then of the weights that are packed. At most 99: the expected bytes
// include the tokenizer's tables, which are not packed, and the model's checks follow.
int Registry::Impl::LoadPercent(const Slot& slot) const {
  if (slot.state != ModelState::kLoading) return -1;
  if (slot.weights_wanted == 0 || backend == nullptr) return slot.download_percent;
  const uint64_t packed = backend->packed_bytes() - slot.packed_before;
  return static_cast<int>(std::min<uint64_t>(packed * 100 / slot.weights_wanted, 99));
}

bool Registry::AllReady() const {
  return !impl_->stopping && !impl_->names().slots.empty() && impl_->NoteReady();
}

bool Registry::Impl::NoteReady() const {
  if (was_ready) return true;
  const auto& all = names().slots;
  const auto is_late = [](const Slot* slot) {
    return slot->IsPending() || (slot->state == ModelState::kFailed && !slot->has_versions);
  };
  if (all.empty() || std::any_of(all.begin(), all.end(), is_late)) return false;
  was_ready = true;
  return true;
}

uint64_t Registry::memory_bytes() const { return impl_->options.memory_bytes; }

uint64_t Registry::HeldBytes() const {
  uint64_t bytes = 0;
  impl_->ForEachModel([&](const Model* model) { bytes += model->HeldBytes(); });
  return bytes;
}

uint64_t Registry::ReleaseMemory() {
  uint64_t bytes = 0;
  impl_->ForEachModel([&](Model* model) { bytes += model->ReleaseMemory(); });
  return bytes;
}

}  // namespace penstock
