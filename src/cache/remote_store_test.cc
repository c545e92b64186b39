// Against a real redis-server, which each test starts on a Unix socket of its own, and against
// servers that misbehave.
#include "cache/remote_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <future>
#include <limits>
#include <new>
#include <utility>

#include "base/eventually_test_util.h"
#include "base/failing_new.h"
#include "base/temp_folder_test_util.h"
#include "cache/redis_connection.h"
#include "log/log.h"

extern char** environ;

namespace penstock::cache {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

// Generous: the machine may be busy. The tests only rule out waits of seconds.
constexpr milliseconds kSoon{3000};

std::string FindRedis() {
  const char* path = std::getenv("PATH");
  std::string rest = path != nullptr ? path : "";
  for (size_t at = 0; at <= rest.size();) {
    const size_t end = std::min(rest.find(':', at), rest.size());
    const std::string file = rest.substr(at, end - at) + "/redis-server";
    if (access(file.c_str(), X_OK) == 0) return file;
    at = end + 1;
  }
  return {};
}

class RemoteStoreTest : public testing::Test {
 protected:
  ~RemoteStoreTest() override {
    store_.reset();
    Kill();
    if (listener_ >= 0) close(listener_);
    if (server_.joinable()) server_.join();
  }

  // False, and the test is skipped, where there is none.
  bool StartRedis(std::vector<std::string> more = {}) {
    const std::string binary = FindRedis();
    if (binary.empty()) return false;
    std::vector<std::string> args = {
        binary,         "--port", "0",     "--unixsocket", socket_,     "--save",       "",
        "--appendonly", "no",     "--dir", folder_.text(), "--logfile", folder_ / "log"};
    args.insert(args.end(), more.begin(), more.end());
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    argv.push_back(nullptr);
    EXPECT_EQ(posix_spawn(&pid_, binary.c_str(), nullptr, nullptr, argv.data(), environ), 0);
    EXPECT_TRUE(Eventually([this] { return Listens(); }));
    return true;
  }
  // The socket is there a moment before the server listens.
  bool Listens() const {
    const int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_un address = Address();
    const bool connected =
        connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    close(client);
    return connected;
  }
  sockaddr_un Address() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, socket_.c_str());
    return address;
  }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  RemoteStoreOptions Options(const std::string& login = "") {
    RemoteStoreOptions options;
    const auto url = RedisUrl::Parse("unix://" + login + socket_);
    EXPECT_TRUE(url.ok()) << url.status().ToString();
    options.url = *url;
    options.timeout = milliseconds(5000);  // nothing here should come near it
    options.connect_timeout = milliseconds(5000);
    options.back_off_min = milliseconds(10);
    options.back_off_max = milliseconds(50);
    return options;
  }
  void Connect(const RemoteStoreOptions& options) {
    store_ = std::make_unique<RemoteStore>(options, &metrics_);
  }
  void ConnectAndWait(const RemoteStoreOptions& options) {
    Connect(options);
    ASSERT_TRUE(Eventually([this] { return store_->up(); }));
  }
  // In time, whatever it is.
  std::optional<std::string> Get(const std::string& key) {
    const auto begin = Clock::now();
    auto value = store_->GetNow(key);
    EXPECT_LT(Clock::now() - begin, kSoon);
    return value;
  }
  RemoteStore::Values GetMany(const std::vector<std::string>& keys) {
    std::promise<RemoteStore::Values> promise;
    store_->GetMany(keys,
                    [&](RemoteStore::Values values) { promise.set_value(std::move(values)); });
    return promise.get_future().get();
  }
  uint64_t Counted(const std::string& name) { return metrics_.AddCounter(name, "").value(); }

  // A server that talks to one client after the other.
  void Serve(const std::function<void(int)>& talk) {
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_un address = Address();
    ASSERT_EQ(bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(listen(listener_, 8), 0);
    server_ = std::thread([this, talk] {
      for (;;) {
        const int client = accept(listener_, nullptr, nullptr);
        if (client < 0) return;
        talk(client);
        close(client);
      }
    });
  }
  void StopServing() {
    shutdown(listener_, SHUT_RDWR);
    server_.join();
  }

  const TempFolder folder_;
  const std::string socket_ = folder_ / "redis.sock";
  pid_t pid_ = -1;
  int listener_ = -1;
  std::thread server_;
  metrics::Metrics metrics_;
  std::unique_ptr<RemoteStore> store_;
};

#define START_REDIS_OR_SKIP(...) \
  if (!StartRedis(__VA_ARGS__)) GTEST_SKIP() << "NO redis-server ON THE PATH: NOT TESTED"

std::string Key(int i) { return RemoteKey('t', {"test", std::to_string(i)}); }

TEST_F(RemoteStoreTest, GivesBackWhatWasPut) {
  START_REDIS_OR_SKIP();
  ConnectAndWait(Options());
  EXPECT_EQ(Get(Key(1)), std::nullopt);
  const std::string binary("\0\r\n$-1\xFF", 7), big(1 << 20, 'b');
  store_->Put(Key(1), binary);
  store_->Put(Key(2), "");
  store_->Put(Key(3), big);
  EXPECT_TRUE(Eventually([&] { return Get(Key(3)).has_value(); }));
  const auto values = GetMany({Key(2), Key(9), Key(1), Key(3), Key(1)});
  ASSERT_EQ(values.size(), 5u);
  EXPECT_EQ(values[0], "");
  EXPECT_EQ(values[1], std::nullopt);
  EXPECT_EQ(values[2], binary);
  EXPECT_EQ(values[3], big);
  EXPECT_EQ(values[4], binary);
  store_->Put(Key(4), big + "x");  // over the limit
  EXPECT_EQ(Counted("penstock_redis_dropped_writes_total"), 1u);
  EXPECT_EQ(Counted("penstock_redis_errors_total"), 0u);
}

// The tests of values, without a secret and with one.
class RemoteValueTest : public RemoteStoreTest, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Secrets, RemoteValueTest, testing::Values("", "0123456789abcdef"));

TEST_P(RemoteValueTest, ForeignAndBrokenValuesAreMisses) {
  START_REDIS_OR_SKIP();
  RemoteStoreOptions options = Options();
  options.secret = GetParam();
  const RemoteSeal seal(options.secret);
  ConnectAndWait(options);
  RedisConnection redis;
  const auto deadline = Clock::now() + milliseconds(5000);
  ASSERT_TRUE(redis.Open(options.url, deadline));
  const auto put = [&](const std::vector<std::string_view>& command) {
    ASSERT_TRUE(redis.Append(command));
    ASSERT_TRUE(redis.Flush(deadline));
    const auto reply = redis.Read(deadline);
    ASSERT_TRUE(reply != nullptr && reply->type != REDIS_REPLY_ERROR);
  };
  const std::string sealed = seal.Seal(Key(0), "value");
  put({"SET", Key(0), sealed});
  EXPECT_EQ(Get(Key(0)), "value");
  put({"SET", Key(1), sealed});                               // under another key
  put({"SET", Key(2), sealed.substr(0, sealed.size() - 1)});  // cut short
  put({"SET", Key(3), sealed + "x"});
  put({"SET", Key(4), ""});
  put({"SET", Key(5), "hello"});
  put({"LPUSH", Key(6), sealed});  // another type
  put({"SET", Key(8), RemoteSeal("another secret, and long").Seal(Key(8), "value")});
  put({"SET", Key(9), RemoteSeal("").Seal(Key(9), "value")});
  EXPECT_EQ(Get(Key(8)), std::nullopt);
  EXPECT_EQ(Get(Key(9)).has_value(), options.secret.empty());
  int bad = 6;
  for (size_t i = 0; i < sealed.size(); ++i) {
    std::string flipped = seal.Seal(Key(7), "value");
    flipped[i] = static_cast<char>(flipped[i] ^ 4);
    put({"SET", Key(7), flipped});
    EXPECT_EQ(Get(Key(7)), std::nullopt) << i;
  }
  for (int i = 1; i <= bad; ++i) EXPECT_EQ(Get(Key(i)), std::nullopt) << i;
  EXPECT_TRUE(store_->up());
  EXPECT_GE(Counted("penstock_redis_errors_total"), sealed.size());
}

TEST_F(RemoteStoreTest, TimeToLiveAndDatabase) {
  START_REDIS_OR_SKIP();
  RemoteStoreOptions options = Options();
  options.ttl = std::chrono::seconds(1);
  options.url.db = 3;
  ConnectAndWait(options);
  store_->Put(Key(1), "x");
  EXPECT_TRUE(Eventually([&] { return Get(Key(1)).has_value(); }));
  options.url.db = 0;
  ConnectAndWait(options);
  EXPECT_EQ(Get(Key(1)), std::nullopt);
  options.url.db = 3;
  ConnectAndWait(options);
  EXPECT_TRUE(Eventually([&] { return !Get(Key(1)).has_value(); }));
}

TEST_F(RemoteStoreTest, Passwords) {
  START_REDIS_OR_SKIP({"--requirepass", "p@ss:word"});
  for (const char* login : {"", ":wrong@", "somebody:p%40ss%3aword@"}) {
    Connect(Options(login));
    EXPECT_TRUE(Eventually([&] { return Counted("penstock_redis_errors_total") > 0; }));
    std::this_thread::sleep_for(milliseconds(50));  // in which a login could still succeed
    EXPECT_FALSE(store_->up()) << login;
    EXPECT_EQ(Get(Key(1)), std::nullopt);
    store_->Put(Key(1), "x");
  }
  ConnectAndWait(Options(":p%40ss%3aword@"));
  EXPECT_EQ(Get(Key(1)), std::nullopt);
  ConnectAndWait(Options("default:p%40ss%3aword@"));
}

TEST_F(RemoteStoreTest, KilledAndStartedAgain) {
  START_REDIS_OR_SKIP();
  ConnectAndWait(Options());
  std::atomic<bool> stop{false};
  std::atomic<int> asked{0}, found{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; !stop; ++i) {
        const std::string key = Key(t * 100 + i % 100);
        store_->Put(key, key);
        const auto begin = Clock::now();
        const auto value = store_->GetNow(key);
        EXPECT_LT(Clock::now() - begin, kSoon);
        EXPECT_EQ(value.value_or(key), key);
        found += value.has_value();
        ++asked;
        // Without a server an answer takes no time; the server must get some to start again.
        if (!value) std::this_thread::sleep_for(milliseconds(1));
      }
    });
  }
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(Eventually([&, before = found.load()] { return found > before + 100; }));
    Kill();
    EXPECT_TRUE(Eventually([&] { return !store_->up(); }));
    EXPECT_TRUE(Eventually([&, before = asked.load()] { return asked > before + 20; }));
    fs::remove(socket_);
    ASSERT_TRUE(StartRedis());
    EXPECT_TRUE(Eventually([&] { return store_->up(); }));
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  EXPECT_GT(Counted("penstock_redis_errors_total"), 0u);
}

TEST_F(RemoteStoreTest, NoServerAtAll) {
  Connect(Options());
  EXPECT_EQ(Get(Key(1)), std::nullopt);
  EXPECT_EQ(GetMany({Key(1), Key(2)}).size(), 2u);
  store_->Put(Key(1), "x");
  EXPECT_TRUE(Eventually([&] { return Counted("penstock_redis_errors_total") > 3; }));
  EXPECT_FALSE(store_->up());
  EXPECT_EQ(Counted("penstock_redis_dropped_writes_total"), 1u);
}

TEST_F(RemoteStoreTest, AServerThatNeverAnswers) {
  Serve([](int client) {
    char bytes[4096];
    while (read(client, bytes, sizeof bytes) > 0) {
    }
  });
  RemoteStoreOptions options = Options();
  options.connect_timeout = milliseconds(50);
  Connect(options);
  EXPECT_TRUE(Eventually([&] { return Counted("penstock_redis_errors_total") > 2; }));
  EXPECT_FALSE(store_->up());
  EXPECT_EQ(Get(Key(1)), std::nullopt);
  store_.reset();
  StopServing();
}

// Answers the PING, then what `answer` says, byte by byte with pauses.
void TalkAfterPing(int client, const std::string& answer) {
  char bytes[4096];
  for (bool first = true; read(client, bytes, sizeof bytes) > 0; first = false) {
    if (first) {
      if (write(client, "+PONG\r\n", 7) != 7) return;
      continue;
    }
    for (const char c : answer) {
      if (send(client, &c, 1, MSG_NOSIGNAL) != 1) return;
      std::this_thread::sleep_for(milliseconds(3));  // so that the bytes arrive one at a time
    }
  }
}

TEST_F(RemoteStoreTest, AServerThatStopsAnsweringOrTalksNonsense) {
  std::mutex mutex;
  std::string answer;
  Serve([&](int client) {
    std::string now;
    {
      const std::lock_guard lock(mutex);
      now = answer;
    }
    TalkAfterPing(client, now);
  });
  const std::string dribble = "*1\r\n$1000\r\n" + std::string(1000, 'x') + "\r\n";
  for (const std::string& bad :
       {std::string(), std::string("+OK\r\n"), std::string("nonsense\r\n"),
        std::string("*2\r\n$-1\r\n$-1\r\n"), std::string("-NOAUTH no\r\n"), dribble}) {
    {
      const std::lock_guard lock(mutex);
      answer = bad;
    }
    RemoteStoreOptions options = Options();
    options.timeout = milliseconds(100);
    options.back_off_min = options.back_off_max = milliseconds(60'000);
    ConnectAndWait(options);
    // A reply that is late, as that of no server or of a slow one, is a miss; the third is one too
    // many.
    EXPECT_TRUE(Eventually([&] {
      EXPECT_EQ(Get(Key(1)), std::nullopt);
      return !store_->up();
    })) << bad.substr(0, 20);
    EXPECT_EQ(Get(Key(1)), std::nullopt);
    store_.reset();
  }
  StopServing();
}

// The words of the next command; empty: the client has gone. Keys hold no line ends.
std::vector<std::string> ReadCommand(int client) {
  std::string text;
  std::vector<std::string> words;
  for (char c; read(client, &c, 1) == 1;) {
    text += c;
    if (!text.ends_with("\r\n")) continue;
    words.push_back(text.substr(0, text.size() - 2));
    text.clear();
    const size_t count = std::stoul(words[0].substr(1));
    if (words.size() < 1 + 2 * count) continue;
    std::vector<std::string> command;
    for (size_t i = 0; i < count; ++i) command.push_back(words[2 + 2 * i]);
    return command;
  }
  return {};
}

void Send(int client, const std::string& text) {
  (void)!send(client, text.data(), text.size(), MSG_NOSIGNAL);
}

// The reply to MGET of these keys: each is its own value.
std::string OwnValues(const std::vector<std::string>& command) {
  std::string reply = "*" + std::to_string(command.size() - 1) + "\r\n";
  for (size_t i = 1; i < command.size(); ++i) {
    const std::string sealed = RemoteSeal("").Seal(command[i], command[i]);
    reply += "$" + std::to_string(sealed.size()) + "\r\n" + sealed + "\r\n";
  }
  return reply;
}

std::vector<std::string> Keys(int count) {
  std::vector<std::string> keys;
  for (int i = 0; i < count; ++i) keys.push_back(Key(i));
  return keys;
}

TEST_F(RemoteStoreTest, ManyKeysAreAskedForInPieces) {
  START_REDIS_OR_SKIP();
  RemoteStoreOptions options = Options();
  options.timeout = milliseconds(1000);
  ConnectAndWait(options);
  const std::vector<std::string> keys = Keys(1000);
  const std::string tail(1500, 'x');
  for (const std::string& key : keys) store_->Put(key, key + tail);
  ASSERT_TRUE(Eventually([&] { return store_->GetNow(keys.back()).has_value(); }));
  const auto values = GetMany(keys);
  ASSERT_EQ(values.size(), keys.size());
  for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(values[i], keys[i] + tail);

  RedisConnection redis;
  const auto deadline = Clock::now() + milliseconds(5000);
  ASSERT_TRUE(redis.Open(options.url, deadline));
  ASSERT_TRUE(redis.Append({"CONFIG", "RESETSTAT"}) && redis.Flush(deadline));
  ASSERT_NE(redis.Read(deadline), nullptr);
  EXPECT_EQ(GetMany(keys).back(), keys.back() + tail);
  ASSERT_TRUE(redis.Append({"INFO", "commandstats"}) && redis.Flush(deadline));
  const auto stats = redis.Read(deadline);
  ASSERT_NE(stats, nullptr);
  EXPECT_THAT(std::string(stats->str, stats->len), testing::HasSubstr("cmdstat_mget:calls=32,"));
}

TEST_F(RemoteStoreTest, PiecesAreBoundedInBytes) {
  std::mutex mutex;
  std::vector<size_t> sizes;
  Serve([&](int client) {
    for (std::vector<std::string> command; !(command = ReadCommand(client)).empty();) {
      if (command[0] == "PING") {
        Send(client, "+PONG\r\n");
        continue;
      }
      const std::lock_guard lock(mutex);
      sizes.push_back(command.size() - 1);
      Send(client, OwnValues(command));
    }
  });
  RemoteStoreOptions options = Options();
  options.timeout = milliseconds(10'000);
  options.piece_bytes_max = 8 * Key(1).size();
  ConnectAndWait(options);
  EXPECT_EQ(GetMany(Keys(50)).back(), Key(49));
  store_.reset();
  StopServing();
  // The first piece is before anything is known of values.
  EXPECT_EQ(sizes, (std::vector<size_t>{32, 8, 8, 2}));
}

// A single query does not wait for the whole of a large look-up.
TEST_F(RemoteStoreTest, OthersAreAnsweredBetweenPieces) {
  std::promise<void> asked, go;
  Serve([&](int client) {
    bool first = true;
    for (std::vector<std::string> command; !(command = ReadCommand(client)).empty();) {
      if (command[0] == "PING") {
        Send(client, "+PONG\r\n");
        continue;
      }
      if (std::exchange(first, false)) {
        asked.set_value();
        go.get_future().wait();
      }
      Send(client, OwnValues(command));
    }
  });
  RemoteStoreOptions options = Options();
  options.timeout = milliseconds(10'000);
  ConnectAndWait(options);
  std::mutex mutex;
  std::vector<size_t> order;  // the number of keys of each look-up that was answered
  std::promise<void> both;
  const auto note = [&](RemoteStore::Values values) {
    EXPECT_TRUE(std::all_of(values.begin(), values.end(),
                            [](const auto& value) { return value.has_value(); }));
    const std::lock_guard lock(mutex);
    order.push_back(values.size());
    if (order.size() == 2) both.set_value();
  };
  store_->GetMany(Keys(200), note);
  asked.get_future().wait();
  store_->GetMany(Keys(1), note);
  go.set_value();
  both.get_future().wait();
  EXPECT_EQ(order, (std::vector<size_t>{1, 200}));
  store_.reset();
  StopServing();
}

TEST_F(RemoteStoreTest, ALateReplyIsAMissAndThreeInARowAreTooMany) {
  std::mutex mutex;
  std::condition_variable changed;
  int held = 0;  // replies that are not sent yet; -1: hold none
  Serve([&](int client) {
    for (std::vector<std::string> command; !(command = ReadCommand(client)).empty();) {
      if (command[0] == "PING") {
        Send(client, "+PONG\r\n");
        continue;
      }
      std::unique_lock lock(mutex);
      if (held >= 0) ++held;
      changed.wait_for(lock, std::chrono::seconds(30), [&] { return held < 0; });
      Send(client, OwnValues(command));
    }
  });
  RemoteStoreOptions options = Options();
  options.timeout = milliseconds(300);
  ConnectAndWait(options);
  for (int i = 0; i < RemoteStore::kLateMax - 1; ++i) {
    EXPECT_EQ(store_->GetNow(Key(i)), std::nullopt);
    EXPECT_TRUE(store_->up());
  }
  {
    const std::lock_guard lock(mutex);
    held = -1;
    changed.notify_all();
  }
  // The late replies are read over: each key gets its own value.
  EXPECT_TRUE(Eventually([&] { return store_->GetNow(Key(7)) == Key(7); }));
  EXPECT_EQ(store_->GetNow(Key(8)).value_or(Key(8)), Key(8));
  EXPECT_GE(Counted("penstock_redis_errors_total"), 2u);
  {
    const std::lock_guard lock(mutex);
    held = 0;
  }
  options.back_off_min = options.back_off_max = milliseconds(60'000);
  ConnectAndWait(options);
  for (int i = 0; i < RemoteStore::kLateMax; ++i) {
    EXPECT_TRUE(store_->up());
    EXPECT_EQ(store_->GetNow(Key(i)), std::nullopt);
  }
  EXPECT_TRUE(Eventually([&] { return !store_->up(); }));
  {
    const std::lock_guard lock(mutex);
    held = -1;
    changed.notify_all();
  }
  store_.reset();
  StopServing();
}

TEST_F(RemoteStoreTest, WhatWaitsIsBounded) {
  Serve([](int client) { TalkAfterPing(client, ""); });
  RemoteStoreOptions options = Options();
  options.timeout = milliseconds(300);
  options.queue_bytes_max = 10'000;
  options.lookups_max = 2;
  ConnectAndWait(options);
  std::atomic<int> answered{0};
  const auto count = [&](RemoteStore::Values) { ++answered; };
  for (int i = 0; i < 10; ++i) store_->GetMany({Key(i)}, count);
  EXPECT_GE(answered.load(), 7);  // one under way, two wait
  for (int i = 0; i < 20; ++i) store_->Put(Key(i), std::string(1000, 'x'));
  EXPECT_GE(Counted("penstock_redis_dropped_writes_total"), 10u);
  EXPECT_LE(metrics_.AddGauge("penstock_cache_bytes", "", "cache=\"redis\"").value(), 10'000);
  store_.reset();  // answers the rest
  EXPECT_EQ(answered.load(), 10);
  StopServing();
}

// Any allocation that fails on the store's thread: waiting look-ups are answered, and the store
// comes up again.
TEST_F(RemoteStoreTest, OutOfMemoryOnItsThreadIsAFailureLikeOthers) {
  START_REDIS_OR_SKIP();
  InitLog({.level = LogLevel::kOff});
  RemoteStoreOptions options = Options();
  options.back_off_min = options.back_off_max = milliseconds(1);
  int failures = 0;
  for (const int64_t count : {1, 3, 100}) {
    int64_t past = 0;  // rounds in a row that had no failure
    for (int64_t nth = 1; past < 3 && nth < 500; ++nth) {
      ConnectAndWait(options);
      store_->Put(Key(1), "value");
      {
        const FailingNewElsewhere failing(nth, count);
        for (int i = 0; i < 3; ++i) {
          const auto values = GetMany({Key(1), Key(2)});
          ASSERT_EQ(values.size(), 2u);
          EXPECT_EQ(values[0].value_or("value"), "value");
          EXPECT_EQ(values[1], std::nullopt);
          store_->Put(Key(1), "value");
        }
        past = failing.failed() ? 0 : past + 1;
        failures += failing.failed();
      }
      ASSERT_TRUE(Eventually([this] { return store_->up(); }));
      EXPECT_TRUE(Eventually(
          [this] { return Get(Key(1)) == "value" || (store_->Put(Key(1), "value"), false); }));
    }
  }
  InitLog({});
  EXPECT_GT(failures, 20);
}

TEST_F(RemoteStoreTest, WhatAnAnswerIsHandedToMayThrow) {
  START_REDIS_OR_SKIP();
  ConnectAndWait(Options());
  store_->Put(Key(1), "value");
  ASSERT_TRUE(Eventually([this] { return Get(Key(1)) == "value"; }));
  for (int i = 0; i < 3; ++i) {
    std::atomic<int> called{0};
    store_->GetMany({Key(1)}, [&](RemoteStore::Values) {
      ++called;
      throw std::bad_alloc();
    });
    EXPECT_TRUE(Eventually([&] { return called == 1; }));
    EXPECT_TRUE(Eventually([this] { return store_->up() && Get(Key(1)) == "value"; }));
    EXPECT_EQ(called, 1);
  }
}

// A server's message goes into the log: bounded, on one line, without terminal controls.
TEST_F(RemoteStoreTest, WhatAServerSaysIsFitForTheLog) {
  const std::string bad = "-ERR \x1b[2J\x9b" + std::string(300'000, 'x') + "\r\n";
  Serve([&](int client) {
    char bytes[4096];
    if (read(client, bytes, sizeof bytes) > 0) (void)!write(client, bad.data(), bad.size());
  });
  testing::internal::CaptureStderr();
  Connect(Options());
  EXPECT_TRUE(Eventually([&] { return Counted("penstock_redis_errors_total") > 0; }));
  store_.reset();
  StopServing();
  FlushLog();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, testing::HasSubstr("PING: ERR ?[2J?xxx"));
  EXPECT_LT(log.size(), 600u);
}

TEST(RemoteSealTest, IsHmacCutInHalf) {
  // Worked out with Python: hmac.new(b"k" * 16, (7).to_bytes(8, "little") + b"the keyvalue",
  // "sha256").
  const RemoteSeal seal(std::string(16, 'k'));
  const std::string sealed = seal.Seal("the key", "value");
  std::string hex;
  for (const unsigned char c : sealed) {
    hex += "0123456789abcdef"[c >> 4];
    hex += "0123456789abcdef"[c & 15];
  }
  EXPECT_EQ(hex, "504e53320500000007b2e72eb0de7c850200b6b78e615aee76616c7565");
  EXPECT_EQ(seal.Open("the key", sealed), "value");
  EXPECT_EQ(seal.Open("the kez", sealed), std::nullopt);
  // A byte moved from the key to the value: lengths are part of the seal.
  EXPECT_EQ(seal.Open("the keyv", sealed), std::nullopt);
}

TEST(FiniteFloats, TellsThemFromOthers) {
  const auto finite = [](std::vector<float> values) {
    return AreFiniteFloats({reinterpret_cast<const char*>(values.data()), values.size() * 4});
  };
  constexpr float kMax = std::numeric_limits<float>::max();
  EXPECT_TRUE(finite({}));
  EXPECT_TRUE(finite({0, -kMax, kMax, 1e-45f}));
  EXPECT_FALSE(finite({0, std::numeric_limits<float>::quiet_NaN()}));
  EXPECT_FALSE(finite({-std::numeric_limits<float>::infinity(), 0}));
  EXPECT_FALSE(AreFiniteFloats("abc"));
}

TEST(RedisUrlTest, Parses) {
  const auto parsed = [](const char* text) {
    const auto url = RedisUrl::Parse(text);
    EXPECT_TRUE(url.ok()) << text << " " << url.status().ToString();
    return url.ok() ? *url : RedisUrl();
  };
  EXPECT_EQ(parsed("redis://localhost").ToString(), "localhost:6379/0");
  EXPECT_EQ(parsed("redis://10.0.0.1:7000/").ToString(), "10.0.0.1:7000/0");
  RedisUrl url = parsed("redis://me:p%40ss%2f@[::1]:7000/5");
  EXPECT_EQ(url.ToString(), "[::1]:7000/5");
  EXPECT_EQ(url.host, "::1");
  EXPECT_EQ(url.user, "me");
  EXPECT_EQ(url.password, "p@ss/");
  EXPECT_EQ(parsed("redis://:secret@host").password, "secret");
  url = parsed("unix:///run/redis.sock?db=2");
  EXPECT_EQ(url.path, "/run/redis.sock");
  EXPECT_EQ(url.db, 2);
}

TEST(RedisUrlTest, KnowsThisMachine) {
  for (const char* url : {"unix:///run/redis.sock", "redis://localhost", "redis://127.0.0.1:7000/1",
                          "redis://127.8.9.1", "redis://[::1]"}) {
    EXPECT_TRUE(RedisUrl::Parse(url)->IsLocal()) << url;
  }
  for (const char* url :
       {"redis://redis", "redis://10.0.0.1", "redis://127.0.0.1.example", "redis://[::2]"}) {
    EXPECT_FALSE(RedisUrl::Parse(url)->IsLocal()) << url;
  }
}

TEST(RedisUrlTest, RefusesByName) {
  for (const char* bad : {"",
                          "localhost",
                          "http://host",
                          "redis://",
                          "redis://host:",
                          "redis://host:0",
                          "redis://host:65536",
                          "redis://host:1x",
                          "redis://host/x",
                          "redis://host/-1",
                          "redis://::1",
                          "redis://[::1",
                          "redis://[::1]x",
                          "redis://[::1]:",
                          "redis://user@host",
                          "redis://:@host",
                          "redis://:%4@host",
                          "redis://:%00@host",
                          "unix://relative",
                          "unix://",
                          "unix:///a?x=1",
                          "unix:///a?db=",
                          "redis://host/99999999999"}) {
    const auto url = RedisUrl::Parse(bad);
    ASSERT_FALSE(url.ok()) << bad;
    EXPECT_EQ(url.status().field(), "redis-url");
  }
  EXPECT_THAT(RedisUrl::Parse("rediss://host").status().message(), testing::HasSubstr("TLS"));
  EXPECT_THAT(RedisUrl::Parse("redis://:secret@host:x").status().message(),
              testing::Not(testing::HasSubstr("secret")));
  EXPECT_FALSE(RedisUrl::Parse("unix:///" + std::string(107, 'a')).ok());
}

TEST(RemoteKeyTest, TellsPartsApart) {
  EXPECT_EQ(RemoteKey('r', {"a", "b"}), RemoteKey('r', {"a", "b"}));
  EXPECT_NE(RemoteKey('r', {"a", "b"}), RemoteKey('r', {"ab", ""}));
  EXPECT_NE(RemoteKey('r', {"a"}), RemoteKey('t', {"a"}));
  EXPECT_EQ(RemoteKey('r', {"a"}).size(), std::string("penstock:1:r:").size() + 64);
}

}  // namespace
}  // namespace penstock::cache
