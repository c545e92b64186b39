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

#include "cache/redis_connection.h"
#include "common/log.h"
#include "common/status.h"

namespace penstock {
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

class RemoteStore::Connection : public RedisConnection {};

RemoteStore::RemoteStore(const RemoteStoreOptions& options, Metrics* metrics)
    : options_(options),
      seal_(options.secret),
      metrics_(MakeCacheMetrics("redis", metrics)),
      errors_(metrics->AddCounter("penstock_redis_errors_total",
                                  "Failed exchanges with Redis, and values of it that were none.")),
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
  metrics_.misses->Add(lookup->keys.size());
  for (auto& value : lookup->values) value.reset();
  lookup->Answer();
}

void RemoteStore::GetMany(std::vector<std::string> keys, GetDone done) {
  Lookup lookup{std::move(keys), {}, std::move(done), Clock::now()};
  lookup.values.resize(lookup.keys.size());
  {
    const std::lock_guard lock(mutex_);
    // Under the lock: once down, MissAll finds all that came before.
    if (up() && !stopping_ && lookups_.size() < options_.lookups_max) {
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
      Write write{std::move(key), {}};
      write.sealed = seal_.Seal(write.key, value);
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

// Allocates nothing: memory may have run out.
void RemoteStore::MissAll() {
  for (;;) {
    Lookup lookup;
    {
      const std::lock_guard lock(mutex_);
      dropped_.Add(writes_.size());
      writes_.clear();
      write_bytes_ = 0;
      metrics_.bytes->Set(0);
      if (lookups_.empty()) return;
      lookup = std::move(lookups_.front());
      lookups_.pop_front();
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
    wake_.wait(lock, [this] { return stopping_ || !lookups_.empty() || !writes_.empty(); });
    if (stopping_) return false;
    if (!lookups_.empty()) {
      lookup = std::move(lookups_.front());
      lookups_.pop_front();
    } else {
      size_t bytes = 0;
      while (!writes_.empty() && writes.size() < kWritesAtATime && bytes < kWriteBytesAtATime) {
        bytes += writes_.front().bytes();
        writes.push_back(std::move(writes_.front()));
        writes_.pop_front();
      }
      write_bytes_ -= bytes;
      metrics_.bytes->Set(static_cast<int64_t>(write_bytes_));
    }
  }
  if (!lookup) return WriteSome(connection, writes);
  // Behind a slow exchange; the model may have been faster.
  if (Clock::now() - lookup->asked > 2 * options_.timeout) return Miss(&*lookup), true;
  return Ask(connection, &*lookup);
}

// Read, but the look-up is always answered.
bool RemoteStore::Ask(Connection* connection, Lookup* lookup) {
  bool kept = false;
  try {
    kept = Read(connection, lookup);
  } catch (...) {
    if (lookup->done != nullptr) Miss(lookup);
    throw;
  }
  return kept;
}

bool RemoteStore::Read(Connection* connection, Lookup* lookup) {
  const auto deadline = Clock::now() + options_.timeout;
  std::vector<std::string_view> command = {"MGET"};
  command.insert(command.end(), lookup->keys.begin(), lookup->keys.end());
  const RedisReplyPtr reply = connection->Append(command) && connection->Flush(deadline)
                                  ? connection->Read(deadline)
                                  : RedisReplyPtr();
  const size_t count = lookup->keys.size();
  if (reply == nullptr || reply->type != REDIS_REPLY_ARRAY || reply->elements != count) {
    if (reply != nullptr) {
      connection->Fail(reply->type == REDIS_REPLY_ERROR ? std::string_view(reply->str, reply->len)
                                                        : "MGET: not one value for each key");
    }
    Miss(lookup);
    return false;
  }
  size_t hits = 0;
  for (size_t i = 0; i < count; ++i) {
    const redisReply& element = *reply->element[i];
    if (element.type == REDIS_REPLY_NIL) continue;
    std::optional<std::string_view> value;
    if (element.type == REDIS_REPLY_STRING) {
      value = seal_.Open(lookup->keys[i], {element.str, element.len});
    }
    if (!value || value->size() > options_.value_bytes_max) {
      errors_.Add();
      continue;
    }
    lookup->values[i].emplace(*value);
    ++hits;
  }
  metrics_.hits->Add(hits);
  metrics_.misses->Add(count - hits);
  lookup->Answer();
  return true;
}

bool RemoteStore::WriteSome(Connection* connection, const std::vector<Write>& writes) {
  const auto deadline = Clock::now() + options_.timeout;
  const std::string ttl_s = std::to_string(options_.ttl.count());
  for (const Write& write : writes) {
    std::vector<std::string_view> command = {"SET", write.key, write.sealed};
    if (options_.ttl.count() > 0) command.insert(command.end(), {"EX", ttl_s});
    if (!connection->Append(command)) return false;
  }
  bool ok = connection->Flush(deadline);
  for (size_t i = 0; ok && i < writes.size(); ++i) {
    const RedisReplyPtr reply = connection->Read(deadline);
    ok = reply != nullptr;
    // The server is full or a replica: it may still answer look-ups.
    if (ok && reply->type == REDIS_REPLY_ERROR) errors_.Add();
  }
  return ok;
}

}  // namespace penstock
