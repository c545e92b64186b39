#include "api/client_slots.h"

#include <algorithm>

namespace penstock::api {

void ClientSlots::Add(Client* client, uint32_t weight) {
  if (client->taken++ == 0) {
    client->weight = std::max(weight, 1u);
    weights_ += client->weight;
  }
  taken_.fetch_add(1, std::memory_order_relaxed);
}

bool ClientSlots::TryTake(const ClientShare& from, int64_t limit, Refused* refused) {
  const std::lock_guard lock(mutex_);
  Client& client = Of(from);
  const int64_t all = taken();
  if (all >= limit) {
    const uint64_t weight = client.taken > 0 ? client.weight : std::max(from.weight, 1u);
    const uint64_t weights = weights_ + (client.taken > 0 ? 0 : weight);
    const auto share = std::max<int64_t>(
        static_cast<int64_t>(static_cast<uint64_t>(std::max<int64_t>(limit, 0)) * weight / weights),
        1);
    if (client.taken >= share || all >= Most(limit)) {
      *refused = {all, client.taken, share, client.taken == all};
      return false;
    }
  }
  Add(&client, from.weight);
  return true;
}

void ClientSlots::Take(const ClientShare& from) {
  const std::lock_guard lock(mutex_);
  Add(&Of(from), from.weight);
}

void ClientSlots::Release(const ClientShare& from) {
  const std::lock_guard lock(mutex_);
  Client& client = Of(from);
  if (--client.taken == 0) weights_ -= client.weight;
  taken_.fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace penstock::api
