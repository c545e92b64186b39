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

    bool Answers(const std::string& name) const {
      return spec.name == name ||
             std::find(spec.aliases.begin(), spec.aliases.end(), name) != spec.aliases.end();
    }
  };

  Loader loader;
  Metrics* metrics = nullptr;
  mutable std::mutex mutex;
  std::condition_variable changed;
  std::deque<Slot> slots;             // guarded by mutex; never shrinks
  bool loading_started = false;       // guarded by mutex
  std::atomic<bool> stopping{false};  // set under mutex
  std::thread thread;

  Status Check(const ModelSpec& spec) const;
  void Load();
  void LoadSlot(Slot* slot, std::unique_lock<std::mutex>* lock);
  void Fail(Slot* slot, const Status& why);
  Expected<Engine*> Get(const Slot& slot) const;
  std::string Names() const;
};

namespace {

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
    const bool twice = std::find(names.begin(), names.begin() + i, names[i]) != names.begin() + i;
    if (twice || std::any_of(slots.begin(), slots.end(),
                             [&](const Slot& slot) { return slot.Answers(names[i]); })) {
      return Status::InvalidArgument(fmt::format("two models are named '{}'", names[i]), "model");
    }
  }
  return Status::Ok();
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
  const auto pending = [](const Impl::Slot& slot) {
    return slot.state == ModelState::kWaiting || slot.state == ModelState::kLoading;
  };
  impl_->changed.wait(lock, [&] {
    return impl_->stopping || std::none_of(impl_->slots.begin(), impl_->slots.end(), pending);
  });
  for (const Impl::Slot& slot : impl_->slots) {
    PENSTOCK_RETURN_IF_ERROR(slot.error);
    if (pending(slot)) return {StatusCode::kUnavailable, "stopped before every model was loaded"};
  }
  return Status::Ok();
}

std::string Registry::Impl::Names() const {
  std::string names;
  for (const Slot& slot : slots) {
    names += names.empty() ? "" : ", ";
    names += slot.spec.name;
    for (const std::string& alias : slot.spec.aliases) names += ", " + alias;
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

Expected<Engine*> Registry::Find(const std::string& name, std::optional<ModelTask> task) const {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->slots.empty()) return Status::NotFound("no model is served", "model");
  if (name.empty()) {
    // A model that is not loaded yet may be the one, so the first of the task is known only when
    // those before it are.
    for (const Impl::Slot& slot : impl_->slots) {
      if (!task || slot.state == ModelState::kWaiting || slot.state == ModelState::kLoading) {
        return impl_->Get(slot);
      }
      if (slot.engine != nullptr && slot.engine->task() == *task) return slot.engine.get();
    }
    return impl_->Get(impl_->slots.front());
  }
  for (const Impl::Slot& slot : impl_->slots) {
    if (slot.Answers(name)) return impl_->Get(slot);
  }
  // The name came from outside and may be long.
  return Status::NotFound(
      fmt::format("no model is served as '{:.200}'; served: {}", name, impl_->Names()), "model");
}

std::vector<Registry::Entry> Registry::List() const {
  const std::lock_guard lock(impl_->mutex);
  std::vector<Entry> entries;
  for (const Impl::Slot& slot : impl_->slots) {
    entries.push_back({slot.spec.name, slot.spec.aliases, slot.spec.reference, slot.state,
                       slot.error, slot.engine.get()});
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
