#include "cache/remote_store.h"

#include <openssl/evp.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <exception>
#include <future>
#include <new>
#include <utility>

#include "base/status.h"
#include "cache/redis_connection.h"
#include "log/log.h"

namespace penstock::cache {
namespace {

using Clock = std::chrono::steady_clock;

// One round of writes: short, since a look-up may wait for its end.
constexpr size_t kWritesAtATime = 64;
constexpr size_t kWriteBytesAtATime = 256 << 10;

constexpr size_t kLoggedBytesMax = 200;

// A server's message, made fit for a log line.
std::string Printable(const std::string& text) {
  std::string out = text.substr(0, kLoggedBytesMax);
  for (char& c : out) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text.size() > kLoggedBytesMax ? out + "..." : out;
}

}  // namespace

std::string RemoteKey(char kind, std::initializer_list<std::string_view> parts) {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(),
                                                                   EVP_MD_CTX_free);
  PENSTOCK_CHECK(context != nullptr &&
                 EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1);
  for (const std::string_view part : parts) {
    const uint64_t size = part.size();
    EVP_DigestUpdate(context.get(), &size, sizeof size);
    EVP_DigestUpdate(context.get(), part.data(), part.size());
  }
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  EVP_DigestFinal_ex(context.get(), digest.data(), &size);
  std::string key = "penstock:1:";
  key += kind;
  key += ':';
  for (unsigned i = 0; i < size; ++i) {
    key += "0123456789abcdef"[digest[i] >> 4];
    key += "0123456789abcdef"[digest[i] & 15];
  }
  return key;
}

// Knows which replies are still to come. The store's thread.
class RemoteStore::Connection : public RedisConnection {
 public:
  enum class Outcome { kAnswered, kLate, kFailed };

  bool Open(const RedisUrl& url, Deadline deadline) {
    owed_ = 0;
    late_in_a_row_ = 0;
    return RedisConnection::Open(url, deadline);
  }

  // Sends the `count` commands that were appended, and gives their replies to `take`, which may
  // say by false that the connection has failed. Replies to commands that were late before are
  // read over.
  template <typename Take>
  Outcome Exchange(size_t commands, Deadline deadline, const Take& take) {
    owed_ += commands;
    bool late = false;
    if (!Flush(deadline, &late)) return late ? OnLate() : Outcome::kFailed;
    while (owed_ > 0) {
      const RedisReplyPtr reply = Read(deadline, &late);
      if (reply == nullptr) return late ? OnLate() : Outcome::kFailed;
      --owed_;
      if (owed_ < commands && !take(*reply)) return Outcome::kFailed;
    }
    late_in_a_row_ = 0;
    return Outcome::kAnswered;
  }

 private:
  Outcome OnLate() {
    if (++late_in_a_row_ < kLateMax) return Outcome::kLate;
    Fail("no answer in time");
    return Outcome::kFailed;
  }

  size_t owed_ = 0;  // replies
  int late_in_a_row_ = 0;
};

RemoteStore::RemoteStore(const RemoteStoreOptions& options, metrics::Metrics* metrics)
    : options_(options),
      seal_(options.secret),
      metrics_(MakeCacheMetrics("redis", metrics)),
      errors_(metrics->AddCounter(
          "penstock_redis_errors_total",
          "Failed exchanges with Redis, and values from it that are not valid.")),
      dropped_(
          metrics->AddCounter("penstock_redis_dropped_writes_total",
                              "Values not written to Redis: too many waiting, or it is down.")),
      up_gauge_(metrics->AddGauge("penstock_redis_up", "1 while Redis answers.")) {
  thread_ = std::thread([this] { Run(); });
}

RemoteStore::~RemoteStore() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

// Calls `done` once, even if it throws.
void RemoteStore::Lookup::Answer() {
  const GetDone call = std::exchange(done, nullptr);
  call(std::move(values));
}

void RemoteStore::Miss(Lookup* lookup) {
  metrics_.misses->Add(lookup->keys.size() - lookup->next);
  lookup->Answer();
}

void RemoteStore::GetMany(std::vector<std::string> keys, GetDone done) {
  Lookup lookup{std::move(keys), {}, std::move(done), 0, Clock::now()};
  lookup.values.resize(lookup.keys.size());
  {
    const std::lock_guard lock(mutex_);
    // Under the lock: once down, MissAll finds all that came before.
    if (up() && !stopping_ && !lookup.keys.empty() &&
        lookups_.size() + rests_.size() < options_.lookups_max) {
      lookups_.push_back(std::move(lookup));
      wake_.notify_one();
      return;
    }
  }
  Miss(&lookup);
}

std::optional<std::string> RemoteStore::GetNow(std::string key) {
  std::promise<Values> promise;
  GetMany({std::move(key)}, [&](Values values) { promise.set_value(std::move(values)); });
  return std::move(promise.get_future().get()[0]);
}

void RemoteStore::Put(std::string key, std::string_view value) {
  try {
    if (up() && value.size() <= options_.value_bytes_max) {
      // Sealed on the store's thread: the caller of Put may hold a turn at the processor.
      Write write{std::move(key), std::string(value)};
      const std::lock_guard lock(mutex_);
      if (write_bytes_ + write.bytes() <= options_.queue_bytes_max) {
        const size_t bytes = write.bytes();
        writes_.push_back(std::move(write));
        write_bytes_ += bytes;
        metrics_.bytes->Set(static_cast<int64_t>(write_bytes_));
        wake_.notify_one();
        return;
      }
    }
  } catch (const std::bad_alloc&) {
    // Dropped, as when the store is down.
  }
  dropped_.Add();
}

void RemoteStore::Run() {
  // A lost server is an error of write, not a SIGPIPE that ends the process.
  sigset_t pipe;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, nullptr);

  Connection connection;
  auto back_off = options_.back_off_min;
  for (;;) {
    try {
      Serve(&connection, &back_off);
    } catch (const std::bad_alloc&) {
      connection.Close("out of memory");
    } catch (...) {
      connection.Close("an exception while an answer was handed over");
    }
    std::unique_lock lock(mutex_);
    if (!stopping_) {
      lock.unlock();
      SetDown(connection.error());
      lock.lock();
    }
    wake_.wait_for(lock, back_off, [this] { return stopping_; });
    if (stopping_) break;
    back_off = std::min(back_off * 2, options_.back_off_max);
  }
  up_.store(false, std::memory_order_release);
  MissAll();
}

// One connection, from its beginning to its end.
void RemoteStore::Serve(Connection* connection, std::chrono::milliseconds* back_off) {
  if (!connection->Open(options_.url, Clock::now() + options_.connect_timeout)) return;
  LogInfo("redis at {} answers", options_.url.ToString());
  up_gauge_.Set(1);
  up_.store(true, std::memory_order_release);
  const auto since = Clock::now();
  while (Work(connection)) {
  }
  // A server that answers a PING and then fails is treated like one that is away.
  if (Clock::now() - since > options_.back_off_max) *back_off = options_.back_off_min;
}

void RemoteStore::SetDown(const std::string& why) noexcept {
  const bool was_up = up_.exchange(false, std::memory_order_acq_rel);
  // Logged once for each time it goes down, and for the very first attempt.
  if (was_up || errors_.value() == 0) {
    try {
      LogWarn("redis at {}: {}; working without it", options_.url.ToString(), Printable(why));
    } catch (const std::exception&) {
      // No memory for a line of the log.
    }
  }
  errors_.Add();
  up_gauge_.Set(0);
  MissAll();
}

// Does not allocate: memory may have run out.
void RemoteStore::MissAll() {
  for (;;) {
    Lookup lookup;
    {
      const std::lock_guard lock(mutex_);
      dropped_.Add(writes_.size());
      writes_.clear();
      write_bytes_ = 0;
      metrics_.bytes->Set(0);
      std::deque<Lookup>& waiting = lookups_.empty() ? rests_ : lookups_;
      if (waiting.empty()) return;
      lookup = std::move(waiting.front());
      waiting.pop_front();
    }
    try {
      Miss(&lookup);
    } catch (...) {
      // `done` was called; its exceptions do not concern the store.
    }
  }
}

// Look-ups first: requests wait for them.
bool RemoteStore::Work(Connection* connection) {
  std::optional<Lookup> lookup;
  std::vector<Write> writes;
  {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [this] {
      return stopping_ || !lookups_.empty() || !rests_.empty() || !writes_.empty();
    });
    if (stopping_) return false;
    lookup = NextLookup();
    if (!lookup) writes = NextWrites();
  }
  if (!lookup) return WriteSome(connection, writes);
  return Ask(connection, *std::move(lookup));
}

// One that is new and a piece of one under way in turns. The mutex is held.
std::optional<RemoteStore::Lookup> RemoteStore::NextLookup() {
  rest_next_ = !rest_next_;
  const bool rest = !rests_.empty() && (rest_next_ || lookups_.empty());
  std::deque<Lookup>& from = rest ? rests_ : lookups_;
  if (from.empty()) return std::nullopt;
  std::optional<Lookup> lookup(std::move(from.front()));
  from.pop_front();
  return lookup;
}

// The mutex is held.
std::vector<RemoteStore::Write> RemoteStore::NextWrites() {
  std::vector<Write> writes;
  size_t bytes = 0;
  while (!writes_.empty() && writes.size() < kWritesAtATime && bytes < kWriteBytesAtATime) {
    bytes += writes_.front().bytes();
    writes.push_back(std::move(writes_.front()));
    writes_.pop_front();
  }
  write_bytes_ -= bytes;
  metrics_.bytes->Set(static_cast<int64_t>(write_bytes_));
  return writes;
}

// Asks for a piece. Whatever happens, the look-up is answered, or waits for the next one.
bool RemoteStore::Ask(Connection* connection, Lookup lookup) {
  bool kept = true;
  try {
    // Behind slow exchanges; the model may have been faster.
    const bool late = Clock::now() - lookup.since > 2 * options_.timeout;
    if (!late) kept = AskPiece(connection, &lookup);
    if (!late && kept && lookup.next < lookup.keys.size()) {
      lookup.since = Clock::now();
      const std::lock_guard lock(mutex_);
      rests_.push_back(std::move(lookup));
      return true;
    }
  } catch (...) {
    if (lookup.done != nullptr) Miss(&lookup);
    throw;
  }
  Miss(&lookup);  // what is left, if anything is
  return kept;
}

bool RemoteStore::AskPiece(Connection* connection, Lookup* lookup) {
  const size_t fit = options_.piece_bytes_max / std::max<size_t>(1, value_bytes_);
  const size_t count = std::min(std::clamp<size_t>(fit, 1, options_.piece_keys_max),
                                lookup->keys.size() - lookup->next);
  std::vector<std::string_view> command = {"MGET"};
  const auto begin = lookup->keys.begin() + static_cast<ptrdiff_t>(lookup->next);
  command.insert(command.end(), begin, begin + static_cast<ptrdiff_t>(count));
  if (!connection->Append(command)) return false;
  size_t hits = 0;
  const auto outcome =
      connection->Exchange(1, Clock::now() + options_.timeout, [&](const redisReply& reply) {
        if (reply.type == REDIS_REPLY_ARRAY && reply.elements == count) {
          hits = TakeValues(reply, count, lookup);
          return true;
        }
        return connection->Fail(reply.type == REDIS_REPLY_ERROR
                                    ? std::string_view(reply.str, reply.len)
                                    : "MGET: not one value for each key");
      });
  if (outcome == Connection::Outcome::kFailed) return false;
  if (outcome == Connection::Outcome::kLate) errors_.Add();
  metrics_.hits->Add(hits);
  metrics_.misses->Add(count - hits);
  lookup->next += count;
  return true;
}

// The number of values found. Those that are none are counted as errors.
size_t RemoteStore::TakeValues(const redisReply& reply, size_t count, Lookup* lookup) {
  size_t hits = 0;
  for (size_t i = 0; i < count; ++i) {
    const redisReply& element = *reply.element[i];
    if (element.type == REDIS_REPLY_NIL) continue;
    std::optional<std::string_view> value;
    if (element.type == REDIS_REPLY_STRING) {
      value = seal_.Open(lookup->keys[lookup->next + i], {element.str, element.len});
    }
    if (!value || value->size() > options_.value_bytes_max) {
      errors_.Add();
      continue;
    }
    value_bytes_ = value->size();
    lookup->values[lookup->next + i].emplace(*value);
    ++hits;
  }
  return hits;
}

bool RemoteStore::WriteSome(Connection* connection, const std::vector<Write>& writes) {
  const std::string ttl_s = std::to_string(options_.ttl.count());
  for (const Write& write : writes) {
    const std::string sealed = seal_.Seal(write.key, write.value);
    std::vector<std::string_view> command = {"SET", write.key, sealed};
    if (options_.ttl.count() > 0) command.insert(command.end(), {"EX", ttl_s});
    if (!connection->Append(command)) return false;
  }
  const auto outcome = connection->Exchange(writes.size(), Clock::now() + options_.timeout,
                                            [this](const redisReply& reply) {
                                              // The server is full or a replica: it may still
                                              // answer look-ups.
                                              if (reply.type == REDIS_REPLY_ERROR) errors_.Add();
                                              return true;
                                            });
  if (outcome == Connection::Outcome::kLate) errors_.Add();
  return outcome != Connection::Outcome::kFailed;
}

}  // namespace penstock::cache
