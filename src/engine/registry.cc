#include "engine/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <mutex>
#include <new>
#include <stdexcept>
#include <thread>

#include "common/log.h"
#include "hub/hub.h"

namespace penstock {

struct Registry::Impl {
  struct Slot {
    ModelSpec spec;
    ModelState state = ModelState::kWaiting;
    Status error;
    std::unique_ptr<Engine> engine;
    std::vector<std::string> last_parts;  // of its names; see NameLastParts

    // Whether it was given that name.
    bool IsNamed(const std::string& name) const {
      return spec.name == name ||
             std::find(spec.aliases.begin(), spec.aliases.end(), name) != spec.aliases.end();
    }
    bool Answers(const std::string& name) const {
      return IsNamed(name) ||
             std::find(last_parts.begin(), last_parts.end(), name) != last_parts.end();
    }
    bool IsPending() const {
      return state == ModelState::kWaiting || state == ModelState::kLoading;
    }
    std::vector<std::string> Aliases() const {
      std::vector<std::string> all = spec.aliases;
      all.insert(all.end(), last_parts.begin(), last_parts.end());
      return all;
    }
  };

  Loader loader;
  Metrics* metrics = nullptr;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::deque<Slot> slots;             // guarded by mutex; never shrinks
  bool loading_started = false;       // guarded by mutex
  bool any_name = false;              // guarded by mutex
  std::atomic<bool> stopping{false};  // set under mutex
  std::thread thread;

  Status Check(const ModelSpec& spec) const;
  void NameLastParts();
  void Load();
  void LoadSlot(Slot* slot, std::unique_lock<std::mutex>* lock);
  void Fail(Slot* slot, const Status& why);
  Expected<Engine*> Get(const Slot& slot) const;
  Expected<Engine*> FirstOf(std::optional<ModelTask> task) const;
  Expected<Engine*> AnyOf(const std::string& name, std::optional<ModelTask> task) const;
  Status Unknown(const std::string& name) const;
  std::string Names() const;
};

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

// The commit in ".../snapshots/<commit>", as the cache of the hub lays folders out; else "".
std::string CommitOfFolder(const std::string& folder) {
  const std::filesystem::path path(folder);
  return path.parent_path().filename() == "snapshots" ? path.filename().string() : "";
}

Expected<std::unique_ptr<Engine>> LoadReference(ModelSpec spec, Backend* backend, Metrics* metrics,
                                                const std::atomic<bool>& stopping) {
  ResolveOptions resolve;
  resolve.progress = [&, file = std::string()](const HubProgress& progress) mutable {
    if (file != progress.file) {
      file = progress.file;
      LogInfo("{}: downloading {} ({:.1f} MB)", spec.name, file, progress.file_bytes_total / 1e6);
    }
    return !stopping.load(std::memory_order_relaxed);
  };
  PENSTOCK_ASSIGN_OR_RETURN(const std::string folder, ResolveModel(spec.reference, resolve));
  spec.options.revision = CommitOfFolder(folder);
  return Engine::Load(folder, spec.options, backend, metrics);
}

// What the exception at hand means for the model that was being loaded. Its texts are short enough
// to need no memory.
Status StatusOfException() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return {StatusCode::kResourceExhausted, "out of memory"};
  } catch (const std::length_error&) {
    return {StatusCode::kResourceExhausted, "size too large"};
  } catch (const std::exception& error) {
    try {
      return Status::Internal(error.what());
    } catch (...) {
      return Status::Internal("");
    }
  } catch (...) {
    return Status::Internal("unknown error");
  }
}

}  // namespace

Registry::Registry(Backend* backend, Metrics* metrics, Loader loader)
    : impl_(std::make_unique<Impl>()) {
  impl_->metrics = metrics;
  impl_->loader =
      loader ? std::move(loader) : [backend, metrics, impl = impl_.get()](const ModelSpec& spec) {
        return LoadReference(spec, backend, metrics, impl->stopping);
      };
}

Registry::~Registry() { Stop(); }

Status Registry::Impl::Check(const ModelSpec& spec) const {
  if (slots.size() >= kModelsMax) {
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
      if (!slot.IsNamed(names[i])) continue;
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
  std::vector<std::vector<std::string>> wanted;
  for (const Slot& slot : slots) {
    std::vector<std::string> parts = LastParts(slot.spec.name);
    for (const std::string& alias : slot.spec.aliases) {
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
  for (size_t i = 0; i < slots.size(); ++i) {
    slots[i].last_parts.clear();
    for (const std::string& part : wanted[i]) {
      bool free = !slots[i].IsNamed(part);
      for (size_t j = 0; j < slots.size(); ++j) {
        free = free && (j == i || (!slots[j].IsNamed(part) && !wants(j, part)));
      }
      if (free) slots[i].last_parts.push_back(part);
    }
  }
}

Status Registry::Add(ModelSpec spec) {
  const std::lock_guard lock(impl_->mutex);
  PENSTOCK_CHECK(!impl_->loading_started);
  PENSTOCK_RETURN_IF_ERROR(impl_->Check(spec));
  spec.options.name = spec.name;
  EncoderScheduler::RegisterMetrics(spec.name, impl_->metrics);
  Impl::Slot slot;
  slot.spec = std::move(spec);
  impl_->slots.push_back(std::move(slot));
  impl_->NameLastParts();
  return Status::Ok();
}

Status Registry::AddEngine(std::unique_ptr<Engine> engine, std::vector<std::string> aliases) {
  const std::lock_guard lock(impl_->mutex);
  Impl::Slot slot;
  slot.spec.name = engine->name();
  slot.spec.aliases = std::move(aliases);
  slot.spec.reference = engine->folder().path;
  PENSTOCK_RETURN_IF_ERROR(impl_->Check(slot.spec));
  slot.state = ModelState::kReady;
  slot.engine = std::move(engine);
  impl_->slots.push_back(std::move(slot));
  impl_->NameLastParts();
  return Status::Ok();
}

void Registry::StartLoading() {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->loading_started) return;
  impl_->loading_started = true;
  try {
    impl_->thread = std::thread([impl = impl_.get()] { impl->Load(); });
  } catch (...) {
    const Status why = StatusOfException();
    for (Impl::Slot& slot : impl_->slots) {
      if (slot.state == ModelState::kWaiting) impl_->Fail(&slot, why);
    }
    impl_->changed.notify_all();
  }
}

void Registry::Impl::Load() {
  std::unique_lock lock(mutex);
  for (Slot& slot : slots) {
    if (slot.state != ModelState::kWaiting || stopping) continue;
    slot.state = ModelState::kLoading;
    try {
      LoadSlot(&slot, &lock);
    } catch (...) {
      // Nothing that loading one model throws may end the process, or keep others from loading.
      if (!lock.owns_lock()) lock.lock();
      if (slot.state == ModelState::kLoading) Fail(&slot, StatusOfException());
    }
    changed.notify_all();
  }
  changed.notify_all();
}

// With the lock held, but not while the model is loaded.
void Registry::Impl::LoadSlot(Slot* slot, std::unique_lock<std::mutex>* lock) {
  lock->unlock();  // spec does not change any more
  const auto start = std::chrono::steady_clock::now();
  auto loaded = loader(slot->spec);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  lock->lock();
  if (!loaded.ok()) return Fail(slot, loaded.status());
  slot->engine = *std::move(loaded);
  slot->state = ModelState::kReady;
  LogInfo("loaded {} in {:.2f} s", slot->spec.name, took.count());
}

// With the lock held. Throws nothing: where memory is short, the message is too.
void Registry::Impl::Fail(Slot* slot, const Status& why) {
  slot->state = ModelState::kFailed;
  try {
    slot->error = why.Annotate("cannot load model '" + slot->spec.name + "'");
    LogDebug("{}", slot->error.ToString());  // whoever waits for it prints it
  } catch (...) {
    if (slot->error.ok()) slot->error = {StatusCode::kResourceExhausted, "out of memory"};
  }
}

Status Registry::WaitLoaded() {
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait(lock, [&] {
    return impl_->stopping || std::none_of(impl_->slots.begin(), impl_->slots.end(),
                                           [](const auto& slot) { return slot.IsPending(); });
  });
  for (const Impl::Slot& slot : impl_->slots) {
    PENSTOCK_RETURN_IF_ERROR(slot.error);
    if (slot.IsPending())
      return {StatusCode::kUnavailable, "stopped before every model was loaded"};
  }
  return Status::Ok();
}

std::string Registry::Impl::Names() const {
  std::string names;
  for (const Slot& slot : slots) {
    names += names.empty() ? "" : ", ";
    names += slot.spec.name;
    for (const std::string& alias : slot.Aliases()) names += ", " + alias;
  }
  return names;
}

Expected<Engine*> Registry::Impl::Get(const Slot& slot) const {
  if (slot.state == ModelState::kReady) return slot.engine.get();
  if (slot.state == ModelState::kFailed) {
    return Status(StatusCode::kUnavailable, slot.error.message(), "model");
  }
  return Status(StatusCode::kUnavailable,
                fmt::format("model '{}' is still being loaded", slot.spec.name), "model")
      .WithRetryAfter(1);
}

// With the lock held and at least one model.
Expected<Engine*> Registry::Impl::FirstOf(std::optional<ModelTask> task) const {
  // A model that is not loaded yet may be the one, so the first of the task is known only when
  // those before it are.
  for (const Slot& slot : slots) {
    if (!task || slot.IsPending()) return Get(slot);
    if (slot.engine != nullptr && slot.engine->task() == *task) return slot.engine.get();
  }
  return Get(slots.front());
}

// With the lock held: what a name means that no model has, where any name is accepted.
Expected<Engine*> Registry::Impl::AnyOf(const std::string& name,
                                        std::optional<ModelTask> task) const {
  std::vector<const Slot*> found;
  for (const Slot& slot : slots) {
    // It may be another of the task; then the name would mean neither.
    if (slot.IsPending()) return Get(slot);
    if (!task || (slot.engine != nullptr && slot.engine->task() == *task)) found.push_back(&slot);
  }
  if (found.empty()) return FirstOf(task);  // none does that: the caller says what is offered
  if (found.size() == 1) return Get(*found.front());
  return Unknown(name);
}

Status Registry::Impl::Unknown(const std::string& name) const {
  // The name came from outside and may be long.
  return Status::NotFound(fmt::format("no model is served as '{:.200}'; served: {}", name, Names()),
                          "model");
}

void Registry::AcceptAnyName() {
  const std::lock_guard lock(impl_->mutex);
  impl_->any_name = true;
}

bool Registry::Has(const std::string& name) const {
  const std::lock_guard lock(impl_->mutex);
  return std::any_of(impl_->slots.begin(), impl_->slots.end(),
                     [&](const Impl::Slot& slot) { return slot.Answers(name); });
}

Expected<Engine*> Registry::Find(const std::string& name, std::optional<ModelTask> task) const {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->slots.empty()) return Status::NotFound("no model is served", "model");
  if (name.empty()) return impl_->FirstOf(task);
  for (const Impl::Slot& slot : impl_->slots) {
    if (slot.Answers(name)) return impl_->Get(slot);
  }
  return impl_->any_name ? impl_->AnyOf(name, task) : impl_->Unknown(name);
}

std::vector<Registry::Entry> Registry::List() const {
  const std::lock_guard lock(impl_->mutex);
  std::vector<Entry> entries;
  for (const Impl::Slot& slot : impl_->slots) {
    entries.push_back({slot.spec.name, slot.Aliases(), slot.spec.reference, slot.state, slot.error,
                       slot.engine.get()});
  }
  return entries;
}

bool Registry::AllReady() const {
  const std::lock_guard lock(impl_->mutex);
  return !impl_->slots.empty() && !impl_->stopping &&
         std::all_of(impl_->slots.begin(), impl_->slots.end(),
                     [](const Impl::Slot& slot) { return slot.state == ModelState::kReady; });
}

void Registry::Stop() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
    impl_->changed.notify_all();
  }
  if (impl_->thread.joinable()) impl_->thread.join();
  for (Impl::Slot& slot : impl_->slots) {
    if (slot.engine != nullptr) slot.engine->scheduler().Stop();
  }
}

}  // namespace penstock
