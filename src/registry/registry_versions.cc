// Registry: versions of a model, and models that are removed.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "log/exception_status.h"
#include "log/log.h"
#include "registry/registry_impl.h"

namespace penstock::registry {
namespace {

// Whether a load with this error may do better later, with the same files.
bool MayPass(StatusCode code) {
  return code == StatusCode::kResourceExhausted || code == StatusCode::kUnavailable ||
         code == StatusCode::kCancelled;
}

}  // namespace

std::string VersionText(const ModelSpec& spec) {
  return spec.version > 0 ? fmt::format(", version {}", spec.version) : "";
}

std::string TitleOf(const ModelSpec& spec) { return spec.name + VersionText(spec); }

// --- Versions that fail -----------------------------------------------------------------------

bool Registry::Impl::StepBack(const Status& why, ModelSpec* spec,
                              std::optional<RefusedVersion>* refused) {
  if (spec->older.empty() || MayPass(why.code())) return false;
  LogWarn("model '{}': version {} is refused, trying version {}: {}", spec->name, spec->version,
          spec->older.front().number, why.message());
  if (!*refused || (*refused)->number < spec->version) {
    *refused = RefusedVersion{spec->version, why.message()};
  }
  ModelVersion next = std::move(spec->older.front());
  spec->older.erase(spec->older.begin());
  spec->version = next.number;
  spec->reference = std::move(next.reference);
  return true;
}

bool Registry::Impl::StepBack(Slot* slot) noexcept {
  if (slot->state != ModelState::kFailed || !slot->served || stopping) return false;
  bool stepped = false;
  RunGuarded("registry", [&] { stepped = StepBack(slot->error, &slot->spec, &slot->refused); });
  if (!stepped) return false;
  slot->failures = 0;
  slot->measured = {};
  slot->facts.reset();
  return true;
}

void Registry::SetRefusedVersion(const std::string& name, std::optional<RefusedVersion> refused) {
  const std::lock_guard lock(impl_->mutex);
  if (Impl::Slot* const slot = impl_->SlotOf(name)) slot->refused = std::move(refused);
}

// --- Replacing --------------------------------------------------------------------------------

std::shared_future<Status> Registry::Replace(ModelSpec spec) {
  const std::lock_guard lock(impl_->mutex);
  PENSTOCK_CHECK(impl_->loading_started);
  if (impl_->stopping) {
    return Impl::Known({StatusCode::kUnavailable, "the models are being stopped"});
  }
  Impl::Slot* const old = impl_->SlotOf(spec.name);
  if (old == nullptr || old->spec.name != spec.name) {
    return Impl::Known(Status::NotFound(fmt::format("no model is named '{}'", spec.name), "model"));
  }
  if (old->successor != nullptr) {
    return Impl::Known({StatusCode::kUnavailable,
                        fmt::format("another version of '{}' is being loaded", spec.name)});
  }
  if (const Status names = impl_->Check(spec, old); !names.ok()) return Impl::Known(names);
  impl_->slots.emplace_back(impl_.get(), std::move(spec));
  Impl::Slot* const made = &impl_->slots.back();
  made->served = false;
  made->replaces = old;
  old->successor = made;
  made->only_check =
      (old->state == ModelState::kAbsent || old->state == ModelState::kDraining) && !old->loading;
  impl_->RegisterMetrics(made);
  made->loading.emplace();
  const auto outcome = made->loading->future();
  impl_->Queue(made, Impl::Step::kSize);
  if (made->state == ModelState::kFailed) {  // there is no thread
    old->successor = nullptr;
    impl_->slots.pop_back();
  }
  return outcome;
}

void Registry::Impl::EndReplace(Slot* made, std::unique_lock<std::mutex>* lock) {
  Slot* const old = std::exchange(made->replaces, nullptr);
  old->successor = nullptr;
  if (made->state == ModelState::kReady) {
    Status free = Status::Ok();
    if (!old->served) {
      free = MakeStatus(StatusCode::kNotFound, "the model was removed meanwhile");
    } else if (!RunGuarded("registry", [&] { free = Check(made->spec, old); })) {
      free = MakeStatus(StatusCode::kResourceExhausted, "out of memory");
    }
    if (free.ok()) return TakePlace(made, old, lock);
    SettleLoad(made, free);
    Retire(made);
    return;
  }
  SettleLoad(made, made->error);
  changed.notify_all();
  // No other thread has seen this slot.
  slots.remove_if([made](const Slot& slot) { return &slot == made; });
}

void Registry::Impl::TakePlace(Slot* made, Slot* old, std::unique_lock<std::mutex>* lock) {
  const auto place = [this](const Slot* slot) {
    return std::find_if(slots.begin(), slots.end(),
                        [slot](const Slot& one) { return &one == slot; });
  };
  slots.splice(place(old), slots, place(made));
  made->served = true;
  old->served = false;
  if (!Publish()) {
    made->served = false;
    old->served = true;
    SettleLoad(made, MakeStatus(StatusCode::kResourceExhausted, "out of memory"));
    return Retire(made);
  }
  // What was said while the model is served holds for its next version, unless this says otherwise.
  if (made->spec.pinned == old->spec.pinned) made->pinned = old->pinned;
  made->asked_keep = old->asked_keep;
  made->loads += old->loads;
  made->evictions += old->evictions;
  if (old->refused && old->refused->number > made->spec.version) made->refused = old->refused;
  for (Waiter& waiter : waiters) {
    if (waiter.slot == old) waiter.slot = made;
  }
  made->waiters = std::exchange(old->waiters, 0);
  const bool needed = made->waiters > 0 || old->loading;
  SettleLoad(old, Status::Ok());
  old->why_closed = "replaced";  // for the log
  Retire(old);
  if (made->only_check && !needed) {
    RunGuarded("registry", [&] { CloseIdle(made, "it was checked and is not used"); });
  }
  SettleLoad(made, Status::Ok());
  changed.notify_all();
  Deliver(made, lock);
}

bool Registry::Impl::Publish() {
  return RunGuarded("registry", [this] {
    NameLastParts();
    PublishNames();
  });
}

Status Registry::CanAdd(const ModelSpec& spec) const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->Check(spec);
}

Status Registry::AddAlias(const std::string& name, const std::string& alias) {
  const std::lock_guard lock(impl_->mutex);
  Impl::Slot* const slot = impl_->SlotOf(name);
  if (slot == nullptr || slot->spec.name != name) {
    return Status::NotFound(fmt::format("no model is named '{}'", name), "model");
  }
  ModelSpec as_named;
  as_named.name = alias;
  as_named.reference = slot->spec.reference;
  PENSTOCK_RETURN_IF_ERROR(impl_->Check(as_named, slot));
  if (slot->IsNamed(alias)) return Status::Ok();
  slot->spec.aliases.push_back(alias);
  if (impl_->Publish()) return Status::Ok();
  slot->spec.aliases.pop_back();
  return {StatusCode::kResourceExhausted, "out of memory"};
}

// --- Removing ---------------------------------------------------------------------------------

Status Registry::Remove(const std::string& name) {
  std::unique_lock lock(impl_->mutex);
  Impl::Slot* const slot = impl_->SlotOf(name);
  if (slot == nullptr || slot->spec.name != name) {
    return Status::NotFound(fmt::format("no model is named '{}'", name), "model");
  }
  slot->served = false;
  if (!impl_->Publish()) {
    slot->served = true;
    return {StatusCode::kResourceExhausted, "out of memory"};
  }
  impl_->SettleLoad(slot, MakeStatus(StatusCode::kNotFound, "the model was removed"));
  slot->why_closed = "removed";
  impl_->Retire(slot);
  impl_->Deliver(slot, &lock);
  return Status::Ok();
}

// Unloads a slot that no table names. One that is being loaded comes here again after that.
void Registry::Impl::Retire(Slot* slot) {
  slot->served = false;
  slot->next_step = Step::kNone;
  slot->ticket = 0;
  slot->close_wanted = false;
  if (slot->state == ModelState::kWaiting && slot->model != nullptr) {
    slot->state = ModelState::kParked;  // its turn to be used again has not come
  }
  if (slot->IsThere()) {
    (void)StartReaper();  // without one the destructor does its work
    Close(slot);
  } else if (slot->state != ModelState::kLoading && slot->state != ModelState::kDraining) {
    slot->state = ModelState::kAbsent;
  }
}

}  // namespace penstock::registry
