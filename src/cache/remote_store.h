// RemoteStore: a cache that several processes share, in Redis. Its loss costs speed, nothing else.
//
//   GetMany, Put (any thread) --> bounded queues --> the store's thread: MGET | SET, pipelined
//
// The thread alone owns the connection, so no request ever touches a socket. A look-up of many keys
// is asked in pieces, with pieces of others in between, and a request waits for the reply to a
// piece for a few milliseconds at most: a late one is a miss, and is read over when it comes. After
// a failure (no connection, three late replies in a row, a reply of the wrong type) the store is
// down: look-ups are misses and writes are dropped, at once and without the thread, which tries
// again after 100 ms, 200 ms, ... 10 s. It is up again when the server has answered a PING.
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

struct redisReply;

namespace penstock::cache {

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
  // Bounds of a piece of a look-up: its keys, and the bytes it should give, by the values so far.
  size_t piece_keys_max = 32;
  size_t piece_bytes_max = 64 << 10;
};

class RemoteStore {
 public:
  static constexpr int kLateMax = 3;  // exchanges in a row: then the store is down

  // Starts the thread; does not wait for the server.
  RemoteStore(const RemoteStoreOptions& options, metrics::Metrics* metrics);
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
    Values values;    // one for each key: misses, until something is found
    GetDone done;     // null once called
    size_t next = 0;  // the first key that has not been asked for
    std::chrono::steady_clock::time_point since;  // it waits for its next piece

    void Answer();
  };
  struct Write {
    std::string key, value;
    size_t bytes() const { return key.size() + value.size(); }
  };
  class Connection;

  void Run();
  void Serve(Connection* connection, std::chrono::milliseconds* back_off);
  bool Work(Connection* connection);  // false: the connection has failed
  bool Ask(Connection* connection, Lookup lookup);
  bool AskPiece(Connection* connection, Lookup* lookup);
  size_t TakeValues(const redisReply& reply, size_t count, Lookup* lookup);
  std::optional<Lookup> NextLookup();
  std::vector<Write> NextWrites();
  bool WriteSome(Connection* connection, const std::vector<Write>& writes);
  void SetDown(const std::string& why) noexcept;
  void MissAll();
  void Miss(Lookup* lookup);

  const RemoteStoreOptions options_;
  const RemoteSeal seal_;
  const CacheMetrics metrics_;
  metrics::Counter& errors_;
  metrics::Counter& dropped_;
  metrics::Gauge& up_gauge_;
  std::atomic<bool> up_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Lookup> lookups_;  // guarded by mutex_: of which nothing was asked
  std::deque<Lookup> rests_;    // guarded by mutex_: of which a piece was
  bool rest_next_ = false;      // guarded by mutex_: the two take turns
  std::deque<Write> writes_;    // guarded by mutex_
  size_t write_bytes_ = 0;      // guarded by mutex_
  bool stopping_ = false;       // guarded by mutex_
  size_t value_bytes_ = 0;      // of the last value found; the thread's
  std::thread thread_;          // last: uses the members above
};

}  // namespace penstock::cache
