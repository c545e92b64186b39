// Answers of a Redis, into a RemoteStore: the first byte's lowest bit says whether its login is
// answered properly first; the rest is sent by the server as the answers to any commands.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <future>
#include <string>
#include <thread>

#include "base/status.h"
#include "cache/remote_store.h"
#include "fuzz_util.h"
#include "log/log.h"
#include "metrics/metrics.h"

namespace penstock {
namespace {

using std::chrono::milliseconds;

// Answers one connection after the other with the bytes it was given last.
class Server {
 public:
  Server() {
    std::string folder =
        (std::filesystem::temp_directory_path() / "penstock_redis_fuzz_XXXXXX").string();
    PENSTOCK_CHECK(mkdtemp(folder.data()) != nullptr);
    folder_ = folder;
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    PENSTOCK_CHECK(path().size() < sizeof(address.sun_path));
    std::strcpy(address.sun_path, path().c_str());
    PENSTOCK_CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    PENSTOCK_CHECK(listen(listener_, 8) == 0);
    thread_ = std::thread([this] { Run(); });
  }
  ~Server() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::string path() const { return folder_ + "/socket"; }
  // Before a client connects.
  void Say(std::string answer) {
    answer_ = std::move(answer);
    ended_ = false;
  }
  // The client has closed its connection.
  bool ended() const { return ended_; }

 private:
  void Run() {
    for (;;) {
      const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) return;
      Talk(client);
      close(client);
      ended_ = true;
    }
  }
  void Talk(int client) const {
    char block[4096];
    if (recv(client, block, sizeof(block), 0) <= 0) return;
    (void)!send(client, answer_.data(), answer_.size(), MSG_NOSIGNAL);
    shutdown(client, SHUT_WR);
    while (recv(client, block, sizeof(block), 0) > 0) {
    }
  }

  std::string folder_;
  int listener_ = -1;
  std::thread thread_;
  std::string answer_;
  std::atomic<bool> ended_{false};
};

cache::RemoteStoreOptions Options(const Server& server, bool login) {
  const auto url = cache::RedisUrl::Parse("unix://" + std::string(login ? "user:secret@" : "") +
                                          server.path() + (login ? "?db=3" : ""));
  PENSTOCK_CHECK(url.ok());
  cache::RemoteStoreOptions options;
  options.url = *url;
  options.timeout = milliseconds(2000);  // the server closes, so nothing waits for it
  options.connect_timeout = milliseconds(2000);
  options.back_off_min = options.back_off_max = milliseconds(60'000);  // one connection an input
  options.value_bytes_max = 1 << 12;
  return options;
}

void LookUp(cache::RemoteStore* store, const std::vector<std::string>& keys) {
  std::promise<cache::RemoteStore::Values> promise;
  store->GetMany(keys,
                 [&](cache::RemoteStore::Values values) { promise.set_value(std::move(values)); });
  const cache::RemoteStore::Values values = promise.get_future().get();
  PENSTOCK_CHECK(values.size() == keys.size());
  for (const auto& value : values) PENSTOCK_CHECK(!value || value->size() <= 1 << 12);
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  static Server* const server = [] {
    InitLog({.level = LogLevel::kOff});
    static Server one;
    return &one;
  }();
  fuzz::Input input(data, size);
  const bool login = input.Bit();
  server->Say((login ? "" : "+PONG\r\n") + std::string(input.Rest()));
  {
    metrics::Metrics metrics;
    cache::RemoteStore store(Options(*server, login), &metrics);
    while (!store.up() && !server->ended()) std::this_thread::yield();
    LookUp(&store, {"a", "b", "c"});
    store.Put("key", "value");
    LookUp(&store, {"a"});
  }
  while (!server->ended()) std::this_thread::yield();
  return 0;
}

PENSTOCK_FUZZ_MUTATE_WITH(penstock::fuzz::MutateText)
