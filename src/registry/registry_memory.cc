// Registry: a budget of memory for the models of each device. What a model may take is settled
// before it is loaded; where there is no room, idle models give theirs: activations and caches
// first (parked), then all (unloaded), the least recently used first.
#include <algorithm>

#include "log/exception_status.h"
#include "log/log.h"
#include "registry/registry_impl.h"

namespace penstock::registry {
namespace {

// How long a load waits for models in use to become idle.
constexpr std::chrono::milliseconds kBusyWait{1000};
constexpr std::chrono::milliseconds kLookAgain{5};
// How long a decoder's step thread may take to give its cache back.
constexpr std::chrono::milliseconds kReleaseWait{100};

double Megabytes(uint64_t bytes) { return static_cast<double>(bytes) / 1e6; }

// All of it that fits in `room`, at least `least`.
uint64_t Part(uint64_t least, uint64_t wanted, uint64_t room) {
  return std::min(std::max(least, wanted), std::max(least, room));
}

// Beside others a model takes half of the room that is left for its cache.
engine::ModelBytes WellOff(const engine::ModelNeeds& needs, uint64_t room) {
  engine::ModelBytes grant = needs.wanted;
  const uint64_t fixed = grant.weights + grant.activations;
  grant.cache = Part(needs.least.cache, grant.cache, room > fixed ? (room - fixed) / 2 : 0);
  return grant;
}

// What is above the least is shared by activations and cache. The least fits.
engine::ModelBytes CutTo(const engine::ModelNeeds& needs, uint64_t room) {
  const uint64_t rest = room - needs.least.total();
  engine::ModelBytes grant = needs.least;
  grant.activations = Part(grant.activations, needs.wanted.activations,
                           grant.activations + rest / (needs.wanted.cache > 0 ? 2 : 1));
  grant.cache = Part(grant.cache, needs.wanted.cache, room - grant.weights - grant.activations);
  return grant;
}

}  // namespace

uint64_t Registry::Impl::TakenBytes(const devices::Device& device) const {
  uint64_t bytes = 0;
  for (const Slot& slot : slots) {
    if (&slot.device == &device) bytes += slot.charged.total();
  }
  return bytes;
}

auto Registry::Impl::ReclaimableFor(const Slot* for_slot) const -> Reclaimable {
  Reclaimable idle;
  for (const Slot& slot : slots) {
    if (&slot == for_slot || &slot.device != &for_slot->device) continue;
    if (slot.charged.total() == 0) continue;
    if (!slot.IsThere() || slot.leases() > 0) {
      idle.busy |= !slot.pinned;
    } else {
      idle.bytes += slot.charged.total() - (slot.pinned ? slot.charged.weights : 0);
    }
  }
  return idle;
}

std::string Registry::Impl::Holders(const Slot& except) const {
  std::string text;
  for (const Slot& slot : slots) {
    if (&slot == &except || &slot.device != &except.device) continue;
    if (slot.charged.total() == 0) continue;
    const char* how = slot.pinned ? "pinned" : slot.leases() > 0 ? "in use" : "idle";
    text += fmt::format("{}{} ({:.1f} MB, {})", text.empty() ? "" : ", ", slot.spec.name,
                        Megabytes(slot.charged.total()), how);
  }
  return text;
}

Status Registry::Impl::NoRoom(const Slot& slot, const engine::ModelNeeds& needs) const {
  const double megabytes = Megabytes(slot.device.memory_bytes);
  const std::string has =
      devices.size() == 1
          ? fmt::format("all models together may have {:.1f} MB (--memory)", megabytes)
          : fmt::format("device '{}' has {:.1f} MB for all its models ({})", slot.device.name,
                        megabytes,
                        &slot.device == &devices.host() ? "--memory" : "--device-memory");
  const std::string why = fmt::format("model '{}' needs {}; {}", slot.spec.name,
                                      engine::ModelBytesText(needs.least), has);
  const std::string holders = Holders(slot);
  if (needs.least.total() > slot.device.memory_bytes || holders.empty()) {
    return {StatusCode::kResourceExhausted, why, "model"};
  }
  return Status(StatusCode::kUnavailable, why + ", of which now: " + holders, "model")
      .WithRetryAfter(1);
}

Expected<engine::ModelBytes> Registry::Impl::Admit(Slot* slot, const engine::ModelNeeds& needs,
                                                   std::unique_lock<std::mutex>* lock) {
  const devices::Device& device = slot->device;
  if (device.memory_bytes == 0) return needs.wanted;
  if (needs.least.total() > device.memory_bytes) return NoRoom(*slot, needs);
  const Clock::time_point patience = Now() + kBusyWait;
  while (!stopping) {
    const uint64_t taken = TakenBytes(device);
    const uint64_t room = device.memory_bytes > taken ? device.memory_bytes - taken : 0;
    const engine::ModelBytes grant = WellOff(needs, room);
    if (grant.total() <= room) return grant;
    if (std::any_of(slots.begin(), slots.end(), [&](const Slot& one) {
          return &one.device == &device && one.state == ModelState::kDraining && one.leases() == 0;
        })) {
      changed.wait_for(*lock, kLookAgain);
      continue;
    }
    const Clock::time_point now = Now();
    // Where all that is idle would not do, nobody is touched: the next try would find the same.
    const Reclaimable idle = ReclaimableFor(slot);
    if (needs.least.total() > room + idle.bytes) {
      if (!idle.busy || now >= patience) return NoRoom(*slot, needs);
      changed.wait_for(*lock, kLookAgain);
      continue;
    }
    if (ParkOne(device, lock)) continue;
    if (needs.least.total() <= room) return CutTo(needs, room);
    const Room made = UnloadOne(slot, now);
    if (made == Room::kNone || (made == Room::kBusy && now >= patience)) {
      return NoRoom(*slot, needs);
    }
    if (made != Room::kMade) changed.wait_for(*lock, kLookAgain);
  }
  return Status(StatusCode::kUnavailable, "the models are being stopped");
}

// Has the idle model that was used least recently give its activations and cache back.
bool Registry::Impl::ParkOne(const devices::Device& device, std::unique_lock<std::mutex>* lock) {
  Slot* oldest = nullptr;
  for (Slot& slot : slots) {
    if (&slot.device != &device || slot.state != ModelState::kReady || slot.leases() > 0) continue;
    if (slot.charged.activations + slot.charged.cache == 0) continue;
    if (oldest == nullptr || slot.last_use() < oldest->last_use()) oldest = &slot;
  }
  if (oldest == nullptr || !oldest->TryAdd()) return false;
  // Under a lease, so that nothing frees the model.
  lock->unlock();
  {
    const Lease<engine::Model> lease(oldest, oldest->model.get(), false);
    oldest->model->ReleaseMemory();
    const Clock::time_point until = Clock::now() + kReleaseWait;
    while (Clock::now() < until && HoldsMuch(*oldest)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  lock->lock();
  // A request may have come, and taken some of it again.
  if (oldest->state != ModelState::kReady || !oldest->CloseIfUnused()) return false;
  if (HoldsMuch(*oldest)) {
    oldest->Open();
    return false;
  }
  oldest->state = ModelState::kParked;
  oldest->parked = oldest->charged;
  oldest->parked.weights = 0;
  Charge(oldest, {.weights = oldest->charged.weights});
  RunGuarded("registry", [&] {
    LogInfo("parked {}: {} go to others", oldest->spec.name,
            engine::ModelBytesText(oldest->parked));
  });
  return true;
}

// More than an eighth of what it may hold besides its weights.
bool Registry::Impl::HoldsMuch(const Slot& slot) {
  return slot.model->HeldBytes() > (slot.charged.activations + slot.charged.cache) / 8;
}

bool Registry::Impl::UnparkNow(Slot* slot) {
  const uint64_t most = slot->device.memory_bytes;
  if (most > 0 && TakenBytes(slot->device) + slot->parked.total() > most) return false;
  SetUnparked(slot, slot->parked);
  return true;
}

// A parked model that a request needs, where others must give memory first.
void Registry::Impl::Unpark(Slot* slot, std::unique_lock<std::mutex>* lock) {
  engine::ModelNeeds needs;
  needs.least = needs.wanted = slot->parked;
  const auto grant = Admit(slot, needs, lock);
  if (grant.ok()) return SetUnparked(slot, *grant);
  slot->state = ModelState::kParked;
  slot->error = grant.status();
}

void Registry::Impl::SetUnparked(Slot* slot, const engine::ModelBytes& grant) {
  Charge(slot, {slot->charged.weights, grant.activations, grant.cache});
  slot->error = Status::Ok();
  slot->Use();
  slot->state = ModelState::kReady;
  slot->Open();
}

// Unloads the idle model that was used least recently, once it has been there for as long as its
// load took.
auto Registry::Impl::UnloadOne(const Slot* for_slot, Clock::time_point now) -> Room {
  Slot* oldest = nullptr;
  bool busy = false, young = false;
  for (Slot& slot : slots) {
    if (&slot == for_slot || &slot.device != &for_slot->device) continue;
    if (slot.pinned || slot.charged.total() == 0) continue;
    if (!slot.IsThere() || slot.leases() > 0) {
      busy = true;
      continue;
    }
    if (now < slot.loaded_at + std::chrono::duration_cast<Clock::duration>(
                                   std::chrono::duration<double>(slot.load_s))) {
      young = true;
      continue;
    }
    if (oldest == nullptr || slot.last_use() < oldest->last_use()) oldest = &slot;
  }
  if (oldest != nullptr && CloseIdle(oldest, "its memory goes to " + for_slot->spec.name)) {
    ++oldest->evictions;
    if (oldest->evictions_total != nullptr) oldest->evictions_total->Add();
    return Room::kMade;
  }
  if (young) return Room::kSoon;
  return busy || oldest != nullptr ? Room::kBusy : Room::kNone;
}

}  // namespace penstock::registry
