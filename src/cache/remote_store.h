// RemoteStore: a cache that several processes share, in Redis. Its loss costs speed, nothing else.
//
//   GetMany, Put (any thread) --> bounded queues --> the store's thread: MGET | SET, pipelined
//
// The thread alone owns the connection, so no request ever touches a socket; a request waits for a
// reply for a few milliseconds at most. After a failure (no connection, no reply in time, a reply
// of the wrong type) the store is down: look-ups are misses and writes are dropped, at once and
// without the thread, which tries again after 100 ms, 200 ms, ... 10 s. It is up again when the
// server has answered a PING.
//
// Stored values are sealed (cache/remote_seal.h); a value whose seal does not fit is a miss. Keys
// are SHA-256 of all that the value depends on, the model's fingerprint included, so the value
// found is the value asked for: no two inputs with one SHA-256 are known.
//
// Running out of memory on the store's thread is one more failure: waiting look-ups are misses, the
// connection is made anew.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cache/cache_metrics.h"
#include "cache/redis_url.h"
#include "cache/remote_seal.h"

namespace penstock {

// "penstock:1:KIND:<64 hexadecimal digits>"; parts are told apart by their lengths.
std::string RemoteKey(char kind, std::initializer_list<std::string_view> parts);

struct RemoteStoreOptions {
  RedisUrl url;
  std::string secret;  // values are authenticated with it; "": guarded against accidents alone
  std::chrono::milliseconds timeout{5};            // of one exchange with the server
  std::chrono::milliseconds connect_timeout{200};  // of connecting, logging in and the first PING
  std::chrono::milliseconds back_off_min{100};
  std::chrono::milliseconds back_off_max{10'000};
  std::chrono::seconds ttl{3600};    // 0: the server's own rules decide
  size_t value_bytes_max = 1 << 20;  // longer ones are neither written nor accepted
  size_t queue_bytes_max = 8 << 20;  // writes that wait; more are dropped
  size_t lookups_max = 1024;         // look-ups that wait; more are misses
};

class RemoteStore {
 public:
  // Starts the thread; does not wait for the server.
  RemoteStore(const RemoteStoreOptions& options, Metrics* metrics);
  ~RemoteStore();  // answers waiting look-ups, drops unwritten values
  RemoteStore(const RemoteStore&) = delete;
  RemoteStore& operator=(const RemoteStore&) = delete;

  // One for each key, in their order.
  using Values = std::vector<std::optional<std::string>>;
  using GetDone = std::function<void(Values)>;
  // Calls `done` exactly once: here when the store is down, else from its thread, which `done` must
  // not hold up. Throws std::bad_alloc, without calling `done`, if the keys cannot be queued.
  void GetMany(std::vector<std::string> keys, GetDone done);
  // GetMany of one key, waiting for it: at most about `timeout` after a write under way.
  std::optional<std::string> GetNow(std::string key);
  // Queues a write; it may be dropped. Throws nothing.
  void Put(std::string key, std::string_view value);

  bool up() const { return up_.load(std::memory_order_acquire); }

 private:
  struct Lookup {
    std::vector<std::string> keys;
    Values values;  // one for each key: misses, until something is found
    GetDone done;   // null once called
    std::chrono::steady_clock::time_point asked;

    void Answer();
  };
  struct Write {
    std::string key, sealed;
    size_t bytes() const { return key.size() + sealed.size(); }
  };
  class Connection;

  void Run();
  void Serve(Connection* connection, std::chrono::milliseconds* back_off);
  bool Work(Connection* connection);  // false: the connection has failed
  bool Ask(Connection* connection, Lookup* lookup);
  bool Read(Connection* connection, Lookup* lookup);
  bool WriteSome(Connection* connection, const std::vector<Write>& writes);
  void SetDown(const std::string& why) noexcept;
  void MissAll();
  void Miss(Lookup* lookup);

  const RemoteStoreOptions options_;
  const RemoteSeal seal_;
  const CacheMetrics metrics_;
  Counter& errors_;
  Counter& dropped_;
  Gauge& up_gauge_;
  std::atomic<bool> up_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Lookup> lookups_;  // guarded by mutex_
  std::deque<Write> writes_;    // guarded by mutex_
  size_t write_bytes_ = 0;      // guarded by mutex_
  bool stopping_ = false;       // guarded by mutex_
  std::thread thread_;          // last: uses the members above
};

}  // namespace penstock
