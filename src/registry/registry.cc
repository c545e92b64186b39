#include "registry/registry.h"

#include <fmt/format.h>

#include <algorithm>

#include "log/exception_status.h"
#include "registry/registry_impl.h"

namespace penstock::registry {

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

Registry::Registry(devices::Devices devices, metrics::Metrics* metrics, Loader loader,
                   RegistryOptions options, Sizer sizer, Fetcher fetcher)
    : impl_(std::make_unique<Impl>(std::move(devices), metrics, std::move(options))) {
  impl_->sizer = std::move(sizer);
  impl_->fetcher = std::move(fetcher);
  impl_->loader = std::move(loader);
  if (!impl_->loader) impl_->UseModelFiles();
  impl_->RegisterDeviceMetrics();
  impl_->PublishNames();
}

bool Registry::Impl::Slot::IsNamed(const std::string& name) const {
  return spec.name == name ||
         std::find(spec.aliases.begin(), spec.aliases.end(), name) != spec.aliases.end();
}

std::vector<std::string> Registry::Impl::Slot::Aliases() const {
  std::vector<std::string> all = spec.aliases;
  all.insert(all.end(), last_parts.begin(), last_parts.end());
  return all;
}

Status Registry::Impl::Check(const ModelSpec& spec, const Slot* replaced) const {
  if (devices.Find(spec.device) == nullptr) {
    return Status::InvalidArgument(
        fmt::format("model '{}': there is no device '{:.100}'; known: {}", spec.name, spec.device,
                    devices.Names()),
        "device");
  }
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
  std::optional<engine::ModelPurpose> purpose = spec.purpose;
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
  const engine::EngineKind& kind =
      engine::KindOf(purpose.value_or(engine::ModelPurpose()).capability);
  if (kind.add_metrics != nullptr) kind.add_metrics(spec.name, impl_->metrics);
  Impl::Slot* const slot = impl_->AddSlot(std::move(spec));
  slot->refused = std::move(refused);
  slot->facts = std::move(facts);
  impl_->RegisterMetrics(slot);
  if (purpose) slot->SetPurpose(*purpose);
  if (impl_->loading_started) impl_->QueueFirst(slot);
  impl_->PublishNames();
  return Status::Ok();
}

// What a device apart from the host has done, by its counters, which the metrics share.
static void AddDeviceCounters(metrics::Metrics* metrics, const devices::Device& device) {
  using metrics::Metrics;
  const auto counters = device.backend != nullptr ? device.backend->counters() : nullptr;
  if (counters == nullptr) return;
  const std::string label = metrics::MetricLabel("device", device.name);
  const auto way = [&](const char* direction) {
    return label + "," + metrics::MetricLabel("direction", direction);
  };
  const auto add = [&](const char* name, const char* help, Metrics::Kind kind,
                       const std::string& labels, auto member) {
    metrics->AddFunction(
        name, help, kind,
        [counters, member] { return static_cast<double>(((*counters).*member).load()); }, labels);
  };
  using Counters = program::DeviceCounters;
  add("penstock_device_busy_seconds_total",
      "Time of a device in batches: their copies and kernels.", Metrics::Kind::kCounter, label,
      &Counters::busy_s);
  const char* const copied =
      "Bytes copied to a device (weights and batches) and from it (results).";
  add("penstock_device_copied_bytes_total", copied, Metrics::Kind::kCounter, way("host_to_device"),
      &Counters::bytes_in);
  add("penstock_device_copied_bytes_total", copied, Metrics::Kind::kCounter, way("device_to_host"),
      &Counters::bytes_out);
  add("penstock_device_graph_captures_total",
      "Times that kernels were captured into a graph: once for each size of batches.",
      Metrics::Kind::kCounter, label, &Counters::captures);
  add("penstock_device_graphs", "Graphs of kernels that are kept.", Metrics::Kind::kGauge, label,
      &Counters::graphs);
}

void Registry::Impl::RegisterDeviceMetrics() {
  if (metrics == nullptr) return;
  for (const devices::Device& device : devices.list()) {
    const std::string label = metrics::MetricLabel("device", device.name);
    metrics
        ->AddGauge("penstock_device_memory_budget_bytes",
                   "Memory that the models of a device may take together; 0: not bounded.", label)
        .Set(static_cast<int64_t>(device.memory_bytes));
    metrics::Gauge& used = metrics->AddGauge(
        "penstock_device_memory_used_bytes",
        "Memory that the loaded models of a device may take at most, of its budget.", label);
    metrics::Gauge& up = metrics->AddGauge(
        "penstock_device_up", "1; 0 once a device is lost, and with it all its models.", label);
    up.Set(1);
    device_gauges.push_back({&used, &up});
    AddDeviceCounters(metrics, device);
  }
}

Status Registry::Impl::HealthOf(const devices::Device& device) const {
  if (device.backend == nullptr) return Status::Ok();
  Status health = device.backend->Health();
  if (health.ok()) return health;
  if (!device_gauges.empty()) {
    device_gauges[static_cast<size_t>(&device - devices.list().data())].up->Set(0);
  }
  return health.Annotate("device '" + device.name + "'");
}

// Read as they are printed: of a slot, which lives as long as the registry.
void Registry::Impl::RegisterMetrics(Slot* slot) {
  if (metrics == nullptr) return;
  const std::string model = metrics::MetricLabel("model", slot->spec.name);
  slot->loads_total =
      &metrics->AddCounter("penstock_model_loads_total", "Models that were loaded.", model);
  slot->evictions_total =
      &metrics->AddCounter("penstock_model_evictions_total",
                           "Models that were unloaded for the memory of others.", model);
  slot->load_seconds = std::make_shared<std::atomic<double>>(0);
  metrics->AddFunction(
      "penstock_model_load_seconds", "How long a model's last load took.",
      metrics::Metrics::Kind::kGauge, [value = slot->load_seconds] { return value->load(); },
      model);
  slot->loaded_gauge =
      &metrics->AddGauge("penstock_model_loaded", "1 while a model is in memory.", model);
  slot->device_gauge =
      &metrics->AddGauge("penstock_model_device", "1 while a model is in memory of that device.",
                         model + "," + metrics::MetricLabel("device", slot->device.name));
  const auto bytes = [&](const char* name) {
    return &metrics->AddGauge("penstock_model_bytes",
                              "Memory that a loaded model may take at most, by class.",
                              model + "," + metrics::MetricLabel("class", name));
  };
  slot->bytes_gauges = {bytes("weights"), bytes("activations"), bytes("cache")};
}

// With the lock held.
void Registry::Impl::Charge(Slot* slot, const engine::ModelBytes& bytes) {
  slot->charged = bytes;
  if (slot->loaded_gauge == nullptr) return;
  // Versions of a model share its series.
  engine::ModelBytes all;
  for (const Slot& one : slots) {
    if (one.loaded_gauge != slot->loaded_gauge) continue;
    all.weights += one.charged.weights;
    all.activations += one.charged.activations;
    all.cache += one.charged.cache;
  }
  slot->loaded_gauge->Set(all.total() > 0);
  slot->device_gauge->Set(std::any_of(slots.begin(), slots.end(), [slot](const Slot& one) {
    return one.device_gauge == slot->device_gauge && one.charged.total() > 0;
  }));
  for (size_t i = 0; i < device_gauges.size(); ++i) {
    device_gauges[i].used_bytes->Set(static_cast<int64_t>(TakenBytes(devices.list()[i])));
  }
  slot->bytes_gauges[0]->Set(static_cast<int64_t>(all.weights));
  slot->bytes_gauges[1]->Set(static_cast<int64_t>(all.activations));
  slot->bytes_gauges[2]->Set(static_cast<int64_t>(all.cache));
}

Status Registry::AddLoaded(std::unique_ptr<engine::Model> model, std::vector<std::string> aliases) {
  const std::lock_guard lock(impl_->mutex);
  ModelSpec spec;
  spec.name = model->name();
  spec.aliases = std::move(aliases);
  spec.reference = model->path();
  spec.replicas = model->info().replicas;
  PENSTOCK_RETURN_IF_ERROR(impl_->Check(spec));
  impl_->SetReady(impl_->AddSlot(std::move(spec)), std::move(model));
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
  if (const Status health = HealthOf(slot->device); !health.ok()) {
    const std::lock_guard lock(mutex);
    slot->registry->CloseLost();
    return health;
  }
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

Expected<Lease<engine::Model>> Registry::Impl::Get(Slot* slot,
                                                   engine::Capability capability) const {
  if (slot->IsUnknown() || slot->Does(capability, std::nullopt)) {
    PENSTOCK_RETURN_IF_ERROR(TakeLease(slot));
    Lease<engine::Model> lease(slot, slot->model.get());
    if (slot->Does(capability, std::nullopt)) return lease;
  }
  const engine::CapabilityText& found =
      engine::TextOf(slot->Purpose().value_or(engine::ModelPurpose()).capability);
  return Status::Unsupported(
      fmt::format("model '{}' {}", slot->spec.name,
                  fmt::format(fmt::runtime(engine::TextOf(capability).refusal),
                              fmt::arg("does", found.does))),
      "model");
}

Expected<Registry::Impl::Slot*> Registry::Impl::Choose(
    const std::string& name, engine::Capability capability,
    std::optional<families::ModelTask> task) const {
  const std::vector<Slot*>& all = names().slots;
  if (all.empty()) return Status::NotFound("no model is served", "model");
  if (Slot* const slot = SlotOf(name)) return slot;
  if (!name.empty() && !any_name) return Unknown(name);
  const engine::CapabilityText& text = engine::TextOf(capability);
  Slot* found = nullptr;
  for (Slot* const slot : all) {
    // What a model does that was never loaded is not known, so the first one that does this is
    // known only when all before it were loaded, and the only one when all were.
    if (slot->MayDoAnything()) return StillLoading(*slot);
    if (!slot->Does(capability, task)) continue;
    if (name.empty() && text.several == nullptr) return slot;
    if (found != nullptr && text.several == nullptr) return Unknown(name);
    if (found != nullptr) {
      return Status::InvalidArgument(fmt::format("no model is named, and {}: '{}', '{}'",
                                                 text.several, found->spec.name, slot->spec.name),
                                     "model");
    }
    found = slot;
  }
  if (found != nullptr) return found;
  if (text.none == nullptr) return all.front();  // the caller refuses what it does
  return name.empty() ? Status::NotFound(text.none, "model") : Unknown(name);
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

Expected<Lease<engine::Model>> Registry::FindModel(const std::string& name,
                                                   engine::Capability capability,
                                                   std::optional<families::ModelTask> task) const {
  return impl_->LookUp([&]() -> Expected<Lease<engine::Model>> {
    PENSTOCK_ASSIGN_OR_RETURN(Impl::Slot* const slot, impl_->Choose(name, capability, task));
    return impl_->Get(slot, capability);
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
    Lease<engine::Model> lease;
    if (slot.TryAdd()) lease = Lease<engine::Model>(&slot, slot.model.get(), false);
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
    // Batches computed at once. A device with several turns computes one.
    const program::Backend* const backend = slot.device.backend;
    entry.replicas = backend != nullptr && backend->sizes().turns > 1 ? 1 : slot.spec.replicas;
    entry.pinned = slot.pinned;
    entry.keep_alive = slot.KeptFor();
    entry.load_s = slot.load_s;
    entry.loads = slot.loads;
    entry.last_use = slot.last_use();
    entry.requests_waiting = slot.waiters;
    entry.evictions = slot.evictions;
    entry.bytes = slot.charged;
    entry.device = slot.device.name;
    entry.facts = slot.facts;
    entry.load_percent = impl_->LoadPercent(slot);
    entry.model = std::move(lease);
  }
  return entries;
}

// Percent of the download, then of the weights that are packed. At most 99: the expected bytes
// include the tokenizer's tables, which are not packed, and the model's checks follow.
int Registry::Impl::LoadPercent(const Slot& slot) const {
  if (slot.state != ModelState::kLoading) return -1;
  const program::Backend* const backend = slot.device.backend;
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

Status Registry::Impl::WhyFailed(const Slot& slot, Status status) const noexcept {
  RunGuarded("registry", [&] {
    Status health = HealthOf(slot.device);
    if (!health.ok()) status = std::move(health);
  });
  return status;
}

std::vector<Registry::DeviceMemory> Registry::MemoryOfDevices() const {
  const std::lock_guard lock(impl_->mutex);
  std::vector<DeviceMemory> all;
  for (const devices::Device& device : impl_->devices.list()) {
    all.push_back({device.name, device.memory_bytes, impl_->TakenBytes(device),
                   device.backend != nullptr ? device.backend->counters() : nullptr,
                   impl_->HealthOf(device).message()});
  }
  return all;
}

Status Registry::HealthOfDevices() {
  const auto& all = impl_->names().slots;
  for (const devices::Device& device : impl_->devices.list()) {
    const auto lies_here = [&](const Impl::Slot* slot) { return &slot->device == &device; };
    const Status health = impl_->HealthOf(device);
    if (health.ok() || std::none_of(all.begin(), all.end(), lies_here)) continue;
    const std::lock_guard lock(impl_->mutex);
    impl_->CloseLost();
    return health;
  }
  return Status::Ok();
}

uint64_t Registry::memory_bytes() const { return impl_->devices.host().memory_bytes; }

uint64_t Registry::HeldBytes() const {
  uint64_t bytes = 0;
  impl_->ForEachModel([&](const engine::Model* model) { bytes += model->HeldBytes(); });
  return bytes;
}

uint64_t Registry::ReleaseMemory() {
  uint64_t bytes = 0;
  impl_->ForEachModel([&](engine::Model* model) { bytes += model->ReleaseMemory(); });
  return bytes;
}

}  // namespace penstock::registry
