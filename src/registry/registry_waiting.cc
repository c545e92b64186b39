// Registry: requests that wait for a model, and models that leave when they are idle. The keeper.
#include <pthread.h>

#include <algorithm>
#include <iterator>

#include "log/exception_status.h"
#include "log/log.h"
#include "registry/registry_impl.h"
#include "sched/clock_math.h"

namespace penstock::registry {
namespace {

// How soon a wait ends after its client has left, and a model that is not to be kept after its use.
constexpr std::chrono::milliseconds kSoon{20};

constexpr KeepAlive kKeepMin = std::chrono::minutes(1);

constexpr char kTimeOver[] = "the request's time ran out while its model was being loaded";

}  // namespace

KeepAlive Registry::Impl::Slot::KeptFor() const {
  return asked_keep.value_or(spec.keep_alive.value_or(registry->options.keep_alive));
}

// Others neither unload a model that is in use nor keep one for good: at least kKeepMin, so that
// they do not make each request of others pay for a load, and at most what is set for the model.
KeepAlive Registry::Impl::Slot::MayKeep(KeepAlive asked, bool rules) const {
  if (rules) return asked;
  const KeepAlive set = spec.keep_alive.value_or(registry->options.keep_alive);
  const KeepAlive most = set < KeepAlive(0) ? KeepAlive::max() : set;
  if (asked < KeepAlive(0)) return set;
  return std::min(std::max(asked, kKeepMin), most);
}

// --- Waiting ----------------------------------------------------------------------------------

// The slot that serves such a request, or the first one that must be loaded before its task is
// known. Null: no model serves it. Takes no lock.
Registry::Impl::Slot* Registry::Impl::Target(const std::string& name, const ModelUse& use) const {
  Slot* const named = name.empty() ? nullptr : SlotOf(name);
  if (named != nullptr) {
    // A model whose task is known is not loaded for another task.
    if (named->IsUnknown() || use.is_any()) return named;
    return named->Serves(use) ? named : nullptr;
  }
  if (!name.empty() && !any_name) return nullptr;
  const auto first = [&](const auto& does) {
    const auto& all = names().slots;
    const auto found = std::find_if(all.begin(), all.end(), [&](const Slot* slot) {
      return slot->IsUnknown() ? slot->state != ModelState::kFailed : does(*slot);
    });
    return found == all.end() ? nullptr : *found;
  };
  const auto first_of = [&](std::optional<families::ModelTask> task) {
    return first([&](const Slot& slot) { return slot.Does(use.capability, task); });
  };
  Slot* const found = first_of(use.task);
  return found == nullptr && use.instead ? first_of(use.instead) : found;
}

bool Registry::MustAwait(const std::string& name, const ModelUse& use,
                         Lease<engine::Model>* hold) const {
  if (!impl_->options.on_demand) return false;
  Impl::Slot* const slot = impl_->Target(name, use);
  if (slot == nullptr) return false;
  if (!impl_->HealthOf(slot->device).ok()) {
    const std::lock_guard lock(impl_->mutex);
    impl_->CloseLost();
  }
  if (hold == nullptr) return !slot->open();
  if (!slot->TryAdd()) return true;
  *hold = Lease<engine::Model>(slot, slot->model.get());
  return false;
}

void Registry::Await(const std::string& name, const ModelUse& use, const RequestContext& context,
                     Then then) {
  std::unique_lock lock(impl_->mutex);
  Impl::Slot* const slot = impl_->Target(name, use);
  std::list<Impl::Waiter> waiter;
  waiter.push_back({slot, name, use, context.cancel, context.deadline, context.keep_alive,
                    context.rules_models, std::move(then)});
  if (slot == nullptr || slot->open()) return impl_->Answer(&waiter, Status::Ok(), &lock);
  Status started = impl_->StartLoad(slot);
  if (started.ok() && !slot->loading) started = slot->error;  // there at once; or no thread
  if (!started.ok() || slot->open()) return impl_->Answer(&waiter, started, &lock);
  ++slot->waiters;
  impl_->waiters.splice(impl_->waiters.end(), waiter);
  impl_->changed.notify_all();  // the keeper's next look may be sooner
}

// With the lock, but not while they are called. Those whose model is there keep it loaded
// meanwhile.
void Registry::Impl::Answer(std::list<Waiter>* answered, const Status& status,
                            std::unique_lock<std::mutex>* lock) noexcept {
  for (Waiter& waiter : *answered) {
    Slot* const slot = waiter.slot;
    if (slot == nullptr) continue;
    if (!slot->TryAdd()) {
      waiter.slot = nullptr;
      continue;
    }
    waiter.held = Lease<engine::Model>(slot, slot->model.get(), false);
    ++slot->delivering;
    if (waiter.keep_alive) {
      slot->asked_keep = slot->MayKeep(*waiter.keep_alive, waiter.rules_models);
      changed.notify_all();  // the keeper's next look may be sooner
    }
    slot->Use();
  }
  lock->unlock();
  for (Waiter& waiter : *answered) {
    RunGuarded("a request that waited for its model", [&] { waiter.then(status); });
  }
  // May notify the reaper, which wants the lock.
  for (Waiter& waiter : *answered) waiter.held = Lease<engine::Model>();
  lock->lock();
  for (const Waiter& waiter : *answered) {
    Slot* const slot = waiter.slot;
    if (slot == nullptr) continue;
    if (--slot->delivering > 0 || !std::exchange(slot->close_wanted, false)) continue;
    if (slot->state == ModelState::kReady) Close(slot);
  }
}

// Whether a waiter of another model now waits for this one. Out of memory it waits for none.
bool Registry::Impl::MustWaitFor(Slot* target) noexcept {
  bool waits = false;
  RunGuarded("registry", [&] {
    waits = !target->open() && StartLoad(target).ok() && !target->open() && target->loading;
  });
  return waits;
}

// Of a slot whose load is over. Some go on to wait for another: those of a model that turned out
// not to do what they want.
void Registry::Impl::Deliver(Slot* slot, std::unique_lock<std::mutex>* lock) {
  std::list<Waiter> done;
  for (auto at = waiters.begin(); at != waiters.end();) {
    const auto waiter = at++;
    if (waiter->slot != slot) continue;
    --slot->waiters;
    Slot* const target = Target(waiter->name, waiter->use);
    if (target != nullptr && target != slot && MustWaitFor(target)) {
      ++target->waiters;
      waiter->slot = target;
    } else {
      if (target != slot) waiter->slot = nullptr;
      done.splice(done.end(), waiters, waiter);
    }
  }
  if (done.empty()) return;
  // These call Find, which takes another model or gives the error.
  std::list<Waiter> elsewhere;
  for (auto at = done.begin(); at != done.end();) {
    const auto waiter = at++;
    if (waiter->slot == nullptr) elsewhere.splice(elsewhere.end(), done, waiter);
  }
  Status status;
  if (!slot->open()) {
    try {
      status = Status(StatusCode::kUnavailable, slot->error.message(), "model")
                   .WithRetryAfter(std::max(1, slot->error.retry_after_s()));
    } catch (...) {
      status = ExceptionStatus();
    }
  }
  if (!done.empty()) Answer(&done, status, lock);
  if (!elsewhere.empty()) Answer(&elsewhere, Status::Ok(), lock);
}

void Registry::Impl::ExpireWaiters(Clock::time_point now, std::unique_lock<std::mutex>* lock) {
  std::list<Waiter> late, left;
  for (auto at = waiters.begin(); at != waiters.end();) {
    const auto waiter = at++;
    const bool gone = waiter->cancel != nullptr && waiter->cancel->cancelled();
    if (!gone && waiter->deadline > now) continue;
    --waiter->slot->waiters;
    waiter->slot = nullptr;
    auto& to = gone ? left : late;
    to.splice(to.end(), waiters, waiter);
  }
  if (!left.empty()) Answer(&left, MakeStatus(StatusCode::kCancelled, "the client left"), lock);
  if (!late.empty()) Answer(&late, MakeStatus(StatusCode::kDeadlineExceeded, kTimeOver), lock);
}

// --- Leaving ----------------------------------------------------------------------------------

Status Registry::Pin(const std::string& name, bool pinned) {
  std::unique_lock lock(impl_->mutex);
  Impl::Slot* const slot = impl_->SlotOf(name);
  if (slot == nullptr) {
    lock.unlock();
    return impl_->Unknown(name);
  }
  slot->pinned = pinned;
  impl_->changed.notify_all();  // the keeper's next look may be sooner
  return Status::Ok();
}

// Where the thread cannot be started, models stay until they are unloaded.
void Registry::Impl::StartKeeper() {
  RunGuarded("registry", [&] {
    keeper_thread = std::thread([this] {
      pthread_setname_np(pthread_self(), "model-keeper");
      KeepLoop();
    });
  });
}

void Registry::Impl::KeepLoop() {
  std::unique_lock lock(mutex);
  Clock::time_point swept = Clock::now();
  while (!stopping) {
    const Clock::time_point now = Clock::now();
    ExpireWaiters(now, &lock);
    Clock::time_point next = NextSweep(swept);
    if (next <= now) {
      Sweep(now);
      swept = now;
      next = NextSweep(swept);
    }
    if (!waiters.empty()) next = std::min(next, now + kSoon);
    for (const Waiter& waiter : waiters) next = std::min(next, waiter.deadline);
    if (!stopping) changed.wait_until(lock, next);
  }
}

// When the first idle model's time is over, within check_interval.
Clock::time_point Registry::Impl::NextSweep(Clock::time_point swept) const {
  Clock::time_point next = swept + options.check_interval;
  for (const Slot& slot : slots) {
    const KeepAlive kept = slot.KeptFor();
    if (!slot.IsThere() || slot.pinned || kept < KeepAlive(0)) continue;
    // A use under way ends now at the earliest, so the model stays for `kept` from now on.
    const Clock::time_point idle_since = slot.leases() > 0 ? Clock::now() : slot.last_use();
    if (kept < next - idle_since) next = idle_since + kept;
  }
  return std::max(next, swept + std::min(kSoon, options.check_interval));
}

void Registry::Impl::Sweep(Clock::time_point now) {
  RunGuarded("model keeper", [this] { CloseLost(); });
  for (Slot& slot : slots) {
    if (!slot.IsThere() || slot.pinned || slot.leases() > 0) continue;
    const KeepAlive kept = slot.KeptFor();
    const Clock::duration idle = now - slot.last_use();
    if (kept < KeepAlive(0) || idle < kept) continue;
    bool closed = false;
    RunGuarded("model keeper", [&] {
      closed = CloseIdle(&slot, fmt::format("idle for {:.0f} s", sched::Seconds(idle)));
    });
    if (!closed) slot.Use();  // a request took it, or no reaper started: try again later
  }
}

}  // namespace penstock::registry
