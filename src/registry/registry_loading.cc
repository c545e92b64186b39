// Registry: loading and unloading. The threads of loading and the reaper.
#include <pthread.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <new>
#include <stdexcept>

#include "log/exception_status.h"
#include "log/log.h"
#include "os/memory.h"
#include "registry/registry_impl.h"

namespace penstock::registry {
namespace {

// How long the registry's destructor waits for leases before it logs that.
constexpr std::chrono::seconds kLongDrain{10};

// The current exception as the failure of the model being loaded. Messages are short enough to need
// no memory.
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

std::shared_future<Status> Registry::Impl::Known(Status status) {
  std::promise<Status> promise;
  promise.set_value(std::move(status));
  return promise.get_future().share();
}

void Registry::Impl::Outcome::Set(const Status& status) noexcept {
  try {
    promise_.set_value(status);
  } catch (const std::bad_alloc&) {
    promise_.set_value({StatusCode::kResourceExhausted, "out of memory"});
  }
}

// --- Loading ----------------------------------------------------------------------------------

void Registry::Impl::SetReady(Slot* slot, std::unique_ptr<engine::Model> model) {
  slot->model = std::move(model);
  slot->SetPurpose(slot->model->purpose());
  slot->measured = slot->model->measured();
  slot->error = Status::Ok();
  slot->failures = 0;
  slot->loaded_at = Now();
  Charge(slot, slot->model->bytes());
  slot->asked_keep.reset();
  ++slot->loads;
  if (slot->loads_total != nullptr) {
    slot->loads_total->Add();
    slot->load_seconds->store(slot->load_s);
  }
  slot->Use();
  slot->state = ModelState::kReady;
  slot->Open();
}

// Throws nothing: where memory is short, the message is short.
void Registry::Impl::SetFailed(Slot* slot, const Status& why) noexcept {
  slot->state = ModelState::kFailed;
  Charge(slot, {});
  const auto wait = options.back_off.min * (1 << std::min(slot->failures++, 16));
  slot->failed_until = Now() + std::min(wait, options.back_off.max);
  try {
    slot->error =
        why.Annotate("cannot load model '" + slot->spec.name + "'" + VersionText(slot->spec));
    LogDebug("{}", slot->error.ToString());  // the waiting caller prints it
  } catch (...) {
    slot->error = {StatusCode::kResourceExhausted, "out of memory"};
  }
}

void Registry::Impl::SettleLoad(Slot* slot, const Status& status) noexcept {
  if (!slot->loading) return;
  slot->loading->Set(status);
  slot->loading.reset();
}

Registry::Impl::Slot* Registry::Impl::FirstToReap() {
  const auto found =
      std::find_if(slots.begin(), slots.end(), [](const Slot& slot) { return slot.to_reap; });
  return found == slots.end() ? nullptr : &*found;
}

Registry::Impl::Slot* Registry::Impl::NextFor(Step step) {
  Slot* next = nullptr;
  for (Slot& slot : slots) {
    if (slot.next_step != step) continue;
    if (next == nullptr || slot.ticket < next->ticket) next = &slot;
  }
  return next;
}

void Registry::Impl::Queue(Slot* slot, Step step) {
  static constexpr std::array<const char*, kSteps> kNames = {"model-unparker", "model-sizer",
                                                             "model-fetcher", "model-loader"};
  slot->state = ModelState::kWaiting;
  slot->next_step = step;
  if (slot->ticket == 0) slot->ticket = ++last_ticket;
  changed.notify_all();
  std::thread& thread = step_threads[static_cast<size_t>(step)];
  if (stopping || thread.joinable()) return;
  try {
    thread = std::thread([this, step] {
      pthread_setname_np(pthread_self(), kNames[static_cast<size_t>(step)]);
      StepLoop(step);
    });
  } catch (...) {
    slot->next_step = Step::kNone;
    slot->ticket = 0;
    if (step == Step::kUnpark) {
      slot->state = ModelState::kParked;
      slot->error = ExceptionStatus();
    } else {
      SetFailed(slot, StatusOfException());
    }
    SettleLoad(slot, slot->error);
  }
}

void Registry::StartLoading() {
  const std::lock_guard lock(impl_->mutex);
  if (impl_->loading_started) return;
  impl_->loading_started = true;
  if (impl_->options.on_demand) impl_->StartKeeper();
  for (Impl::Slot& slot : impl_->slots) {
    if (slot.state == ModelState::kWaiting) impl_->QueueFirst(&slot);
  }
  impl_->NoteReady();
}

void Registry::Impl::QueueFirst(Slot* slot) {
  if (slot->next_step != Step::kNone) return;
  if (options.on_demand && !slot->spec.preload) {
    slot->state = ModelState::kAbsent;
  } else {
    Queue(slot, Step::kSize);
  }
}

void Registry::Impl::StepLoop(Step step) {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [&] { return stopping || NextFor(step) != nullptr; });
    if (stopping) return;
    Slot* const slot = NextFor(step);
    slot->next_step = Step::kNone;
    slot->state = ModelState::kLoading;
    try {
      Take(slot, step, &lock);
    } catch (...) {
      // An exception from loading one model must not end the process or keep others from loading.
      if (!lock.owns_lock()) lock.lock();
      slot->next_step = Step::kNone;
      if (step == Step::kUnpark) {
        // Its weights are there still, and stay charged.
        if (!slot->open()) slot->state = ModelState::kParked;
        slot->error = ExceptionStatus();
      } else if (slot->IsPending()) {
        SetFailed(slot, WhyFailed(*slot, StatusOfException()));
      }
    }
    if (StepBack(slot)) {
      slot->fetched = false;
      Queue(slot, Step::kSize);
    }
    const bool removed = !slot->served && slot->replaces == nullptr;
    if (slot->next_step == Step::kNone || removed) EndLoad(slot, &lock);
  }
}

void Registry::Impl::Take(Slot* slot, Step step, std::unique_lock<std::mutex>* lock) {
  switch (step) {
    case Step::kUnpark:
      return Unpark(slot, lock);
    case Step::kSize:
      return SizeSlot(slot, lock);
    case Step::kFetch:
      return FetchSlot(slot, lock);
    case Step::kLoad:
      return LoadSlot(slot, lock);
    case Step::kNone:
      break;
  }
}

void Registry::Impl::EndLoad(Slot* slot, std::unique_lock<std::mutex>* lock) {
  slot->ticket = 0;
  if (slot->replaces != nullptr) return EndReplace(slot, lock);
  if (!slot->served) Retire(slot);                                 // removed meanwhile
  if (slot->state == ModelState::kFailed && slot->has_versions) {  // it ends no start: WaitLoaded
    RunGuarded("registry", [&] { LogWarn("{}", slot->error.message()); });
  }
  SettleLoad(slot, slot->error);
  NoteReady();
  changed.notify_all();
  Deliver(slot, lock);
}

ModelSpec Registry::Impl::SpecToLoad(Slot* slot, const engine::ModelBytes& granted) const {
  ModelSpec spec = slot->spec;
  spec.download_percent = &slot->download_percent;
  spec.granted = granted;
  spec.options.Set({spec.name, spec.version, spec.replicas, granted, slot->measured});
  return spec;
}

// With the lock held, but not while files are looked at; so are the next two.
void Registry::Impl::SizeSlot(Slot* slot, std::unique_lock<std::mutex>* lock) {
  slot->download_percent = -1;
  slot->weights_wanted = 0;
  if (const Status health = HealthOf(slot->device); !health.ok()) return SetFailed(slot, health);
  ModelSpec spec = SpecToLoad(slot, {});
  spec.fetched = !fetcher.fetch || slot->fetched;
  const bool describes = describer && slot->facts == nullptr;
  std::shared_ptr<const engine::FileFacts> facts;
  lock->unlock();
  const bool here = spec.fetched || fetcher.is_here(spec);
  spec.fetched = true;
  if (here && describes) facts = describer(spec);
  Expected<engine::ModelNeeds> needs = engine::ModelNeeds();
  if (here && sizer && slot->device.memory_bytes > 0) needs = sizer(spec);
  lock->lock();
  if (!here) return Queue(slot, Step::kFetch);
  if (describes) slot->facts = std::move(facts);
  if (!needs.ok()) return SetFailed(slot, needs.status());
  slot->needs = *needs;
  Queue(slot, Step::kLoad);
}

void Registry::Impl::FetchSlot(Slot* slot, std::unique_lock<std::mutex>* lock) {
  const ModelSpec spec = SpecToLoad(slot, {});
  lock->unlock();
  const Status fetched = fetcher.fetch(spec);
  lock->lock();
  if (!fetched.ok()) return SetFailed(slot, fetched);
  slot->fetched = true;
  Queue(slot, Step::kSize);
}

void Registry::Impl::LoadSlot(Slot* slot, std::unique_lock<std::mutex>* lock) {
  if (const Status health = HealthOf(slot->device); !health.ok()) return SetFailed(slot, health);
  const auto start = Now();
  engine::ModelBytes granted;
  if (const devices::Device& device = slot->device; sizer && device.memory_bytes > 0) {
    LogInfo("loading {}: takes up to {}", TitleOf(slot->spec),
            engine::ModelBytesText(slot->needs.wanted));
    const auto admitted = Admit(slot, slot->needs, lock);
    if (!admitted.ok()) return SetRefused(slot, admitted.status());
    granted = *admitted;
    Charge(slot, granted);
    slot->weights_wanted = granted.weights;
    if (device.backend != nullptr) slot->packed_before = device.backend->packed_bytes();
  }
  ModelSpec spec = SpecToLoad(slot, granted);
  spec.fetched = true;
  lock->unlock();
  auto loaded = loader(spec);
  const std::chrono::duration<double> took = Now() - start;
  lock->lock();
  if (!loaded.ok()) return SetFailed(slot, WhyFailed(*slot, loaded.status()));
  slot->load_s = took.count();
  SetReady(slot, *std::move(loaded));
  LogInfo("loaded {} in {:.2f} s: {}", TitleOf(slot->spec), took.count(),
          engine::ModelBytesText(slot->charged));
}

void Registry::Impl::SetRefused(Slot* slot, const Status& why) {
  if (slot->served) LogWarn("{}", why.message());  // who replaces one says so
  Charge(slot, {});
  slot->error = why;
  slot->state = ModelState::kAbsent;
}

Status Registry::WaitLoaded() {
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait(lock, [&] {
    return impl_->stopping ||
           std::none_of(impl_->slots.begin(), impl_->slots.end(),
                        [](const auto& slot) { return slot.served && slot.IsPending(); });
  });
  for (const Impl::Slot& slot : impl_->slots) {
    if (!slot.served) continue;
    if (slot.state == ModelState::kFailed && !slot.has_versions) return slot.error;
    if (slot.IsPending()) {
      return {StatusCode::kUnavailable, "stopped before every model was loaded"};
    }
  }
  return Status::Ok();
}

std::shared_future<Status> Registry::Load(const std::string& name) {
  std::unique_lock lock(impl_->mutex);
  Impl::Slot* const slot = impl_->SlotOf(name);
  if (slot == nullptr) {
    lock.unlock();
    return Impl::Known(impl_->Unknown(name));
  }
  if (const Status health = impl_->HealthOf(slot->device); !health.ok()) {
    impl_->CloseLost();
    return Impl::Known(health);
  }
  if (slot->state == ModelState::kReady) return Impl::Known(Status::Ok());
  if (const Status started = impl_->StartLoad(slot); !started.ok()) return Impl::Known(started);
  if (slot->state == ModelState::kReady) return Impl::Known(Status::Ok());  // it was parked
  return slot->loading ? slot->loading->future() : Impl::Known(slot->error);
}

Status Registry::Impl::StartLoad(Slot* slot) {
  PENSTOCK_RETURN_IF_ERROR(HealthOf(slot->device));
  if (stopping) return {StatusCode::kUnavailable, "the models are being stopped"};
  if (slot->state == ModelState::kFailed) {
    const auto left = slot->failed_until - Now();
    if (left > Clock::duration::zero()) {
      const auto seconds = std::chrono::ceil<std::chrono::seconds>(left).count();
      return Status(StatusCode::kUnavailable, slot->error.message(), "model")
          .WithRetryAfter(static_cast<int>(seconds));
    }
  }
  if (slot->state == ModelState::kReady) return Status::Ok();
  if (slot->state == ModelState::kParked && UnparkNow(slot)) return Status::Ok();
  if (!slot->loading) slot->loading.emplace();
  if (slot->ticket == 0) slot->ticket = ++last_ticket;
  // The reaper hands on a model that drains.
  const bool under_way = slot->state == ModelState::kDraining ||
                         slot->state == ModelState::kLoading || slot->next_step != Step::kNone;
  if (!under_way) {
    slot->fetched = false;
    Queue(slot, slot->state == ModelState::kParked ? Step::kUnpark : Step::kSize);
  }
  return Status::Ok();
}

// --- Unloading --------------------------------------------------------------------------------

std::shared_future<Status> Registry::Unload(const std::string& name) {
  std::unique_lock lock(impl_->mutex);
  Impl::Slot* const slot = impl_->SlotOf(name);
  if (slot == nullptr) {
    lock.unlock();
    return Impl::Known(impl_->Unknown(name));
  }
  if (slot->IsPending()) return Impl::Known(impl_->StillLoading(*slot));
  if (slot->successor != nullptr) slot->successor->only_check = true;
  if (slot->state == ModelState::kDraining) return slot->unloading->future();
  if (slot->state != ModelState::kReady && slot->state != ModelState::kParked) {
    slot->state = ModelState::kAbsent;
    slot->error = Status::Ok();
    slot->failures = 0;
    return Impl::Known(Status::Ok());
  }
  if (!impl_->StartReaper()) {
    return Impl::Known({StatusCode::kUnavailable, "there is no thread to unload a model"});
  }
  if (slot->close_wanted) return slot->unloading->future();
  slot->unloading.emplace();
  slot->why_closed = "asked to";
  slot->close_wanted = slot->delivering > 0;
  if (!slot->close_wanted) impl_->Close(slot);
  return slot->unloading->future();
}

bool Registry::Impl::StartReaper() {
  if (reaper_thread.joinable()) return true;
  return RunGuarded("registry", [&] { reaper_thread = std::thread([this] { ReapLoop(); }); });
}

bool Registry::Impl::CloseIdle(Slot* slot, std::string why) {
  if (slot->close_wanted || !StartReaper()) return false;
  Outcome outcome;  // first, as it allocates
  if (slot->state != ModelState::kParked && !slot->CloseIfUnused()) return false;
  slot->state = ModelState::kDraining;
  slot->why_closed = std::move(why);
  slot->unloading.emplace(std::move(outcome));
  slot->to_reap = true;
  changed.notify_all();
  return true;
}

void Registry::Impl::Close(Slot* slot) {
  const bool parked = slot->state == ModelState::kParked;  // closed, and without leases
  slot->state = ModelState::kDraining;
  if (!parked && !slot->Close()) return;
  slot->to_reap = true;
  changed.notify_all();
}

void Registry::Impl::CloseLost() {
  for (Slot& slot : slots) {
    if (!slot.IsThere() || slot.close_wanted || HealthOf(slot.device).ok() || !StartReaper())
      continue;
    slot.why_closed = "its device is lost";
    slot.unloading.emplace();
    slot.close_wanted = slot.delivering > 0;
    if (!slot.close_wanted) Close(&slot);
  }
}

// Notified under the lock: once it is released the registry may be gone. Allocates nothing, as it
// is called where a lease goes.
void Registry::Impl::HandToReaper(Slot* slot) {
  const std::lock_guard lock(mutex);
  slot->to_reap = true;
  changed.notify_all();
}

void Registry::Impl::ReapLoop() {
  std::unique_lock lock(mutex);
  const auto is_draining = [](const Slot& slot) { return slot.state == ModelState::kDraining; };
  for (;;) {
    while (Slot* const slot = FirstToReap()) Reap(slot, &lock);
    const auto left = std::find_if(slots.begin(), slots.end(), is_draining);
    if (ending && left == slots.end()) return;
    const auto drained = [this] { return FirstToReap() != nullptr; };
    if (!ending) {
      changed.wait(lock, [&] { return ending || drained(); });
    } else if (!changed.wait_for(lock, kLongDrain, drained)) {
      RunGuarded("reaper", [&] {
        LogWarn("model '{}' is still leased by {}; waiting for them", left->spec.name,
                left->leases());
      });
    }
  }
}

// With the lock held, but not while the model is stopped and freed.
void Registry::Impl::Reap(Slot* slot, std::unique_lock<std::mutex>* lock) {
  slot->to_reap = false;
  std::unique_ptr<engine::Model> model = std::move(slot->model);
  const std::string why = std::exchange(slot->why_closed, {});
  const bool last = ending;
  lock->unlock();
  const uint64_t bytes = model->info().weight_bytes + model->HeldBytes();
  model->Stop();
  model.reset();
  if (!last) TrimHeap();
  RunGuarded("reaper", [&] {
    LogInfo("unloaded {}: {}; {:.1f} MB freed", TitleOf(slot->spec),
            why.empty() ? "the end" : why.c_str(), static_cast<double>(bytes) / 1e6);
  });
  lock->lock();
  const Status health = WhyFailed(*slot, Status::Ok());
  if (health.ok()) {
    Charge(slot, {});
    slot->state = ModelState::kAbsent;
  } else {
    SetFailed(slot, health);
  }
  if (slot->unloading) slot->unloading->Set(Status::Ok());
  slot->unloading.reset();
  if (slot->loading && !stopping) {
    slot->fetched = false;
    Queue(slot, Step::kSize);
  }
  changed.notify_all();
}

// --- The end ----------------------------------------------------------------------------------

void Registry::Stop() {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
    impl_->changed.notify_all();
  }
  if (impl_->keeper_thread.joinable()) impl_->keeper_thread.join();
  for (std::thread& thread : impl_->step_threads) {
    if (thread.joinable()) thread.join();
  }
  {
    std::unique_lock lock(impl_->mutex);
    std::list<Impl::Waiter> left = std::move(impl_->waiters);
    impl_->waiters.clear();
    for (Impl::Waiter& waiter : left) {
      --waiter.slot->waiters;
      waiter.slot = nullptr;
    }
    if (!left.empty()) {
      impl_->Answer(&left, {StatusCode::kUnavailable, "stopped before the model was loaded"},
                    &lock);
    }
    for (Impl::Slot& slot : impl_->slots) {
      impl_->SettleLoad(&slot, {StatusCode::kUnavailable, "stopped before the model was loaded"});
    }
  }
  impl_->ForEachModel([](engine::Model* model) { model->Stop(); });
}

void Registry::Impl::ShutDown() {
  {
    const std::lock_guard lock(mutex);
    for (Slot& slot : slots) {
      if (slot.IsThere()) Close(&slot);
    }
    ending = true;
    changed.notify_all();
  }
  if (reaper_thread.joinable()) {
    reaper_thread.join();
  } else {
    ReapLoop();
  }
}

Registry::~Registry() {
  Stop();
  impl_->ShutDown();
}

}  // namespace penstock::registry
