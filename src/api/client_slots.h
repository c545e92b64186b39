// ClientSlots: how many requests are worked on at once, in all and of each client, and which are
// refused when there are too many.
//
// A client's share is the limit times its weight over the weights of all clients that have requests
// under way. Below the limit every request is let in, so one client alone may have all of it. What
// it has cannot be taken back, so at the limit a client that has less than its share is still let
// in, up to an eighth more than the limit; one that has its share is refused. As requests end,
// their places go to those below their share first, for the others must wait until there are fewer
// requests than the limit again.
//
// Clients are counted in a table of fixed size by their hash: two that meet there count as one. No
// call allocates or throws. Any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

namespace penstock::api {

// The client that a request is from.
struct ClientShare {
  uint64_t client = 0;
  uint32_t weight = 1;
};

class ClientSlots {
 public:
  // Requests that there may be where the limit is `limit`.
  static constexpr int64_t Most(int64_t limit) { return limit + (limit + 7) / 8; }

  // What was there when a request was refused.
  struct Refused {
    int64_t all = 0;    // requests under way
    int64_t own = 0;    // of this client
    int64_t share = 0;  // of this client
    bool alone = true;  // all are this client's
  };

  // Counts a request in; false: it is refused, and `refused` is set.
  bool TryTake(const ClientShare& from, int64_t limit, Refused* refused);
  // Counts a request in, however many there are.
  void Take(const ClientShare& from);
  void Release(const ClientShare& from);

  int64_t taken() const { return taken_.load(std::memory_order_relaxed); }

 private:
  struct Client {
    int32_t taken = 0;
    uint32_t weight = 0;  // while it has requests
  };
  static constexpr size_t kClients = 4096;

  Client& Of(const ClientShare& from) {
    // The upper bits: clients may be small numbers.
    return clients_[(from.client * 0x9e3779b97f4a7c15u) >> (64 - 12)];
  }
  void Add(Client* client, uint32_t weight);

  std::mutex mutex_;
  std::array<Client, kClients> clients_{};
  uint64_t weights_ = 0;  // of clients that have requests
  std::atomic<int64_t> taken_{0};
};

}  // namespace penstock::api
