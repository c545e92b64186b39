// What tests of the connection layer share: a small handler behind a listener, and a client with a
// real socket.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/eventually_test_util.h"
#include "http/listener.h"
#include "http/stream.h"
#include "threads/byte_budget.h"

namespace penstock::http {

using std::chrono::milliseconds;

// "/echo" answers with the body; "/slow" when Release is called; "/late" after 100 ms from another
// thread; "/secret" is refused before its body is read; "/stream" leaves a Stream to the test.
class Handler : public HttpHandler {
 public:
  ~Handler() override {
    for (std::thread& thread : threads_) thread.join();
  }
  std::optional<HttpResponse> OnHeader(HttpRequest* request) override {
    if (request->Header("x-timeout") != "") {
      request->context.deadline = Clock::now() + milliseconds(50);
    }
    if (budget != nullptr) {
      request->context.memory = std::make_shared<RequestMemory>(budget, Priority::kInteractive);
    }
    if (request->path != "/secret") return std::nullopt;
    return HttpResponse{.status = 401, .body = "refused"};
  }
  void OnRequest(std::shared_ptr<const HttpRequest> request, std::string body,
                 Responder respond) override {
    const std::lock_guard lock(mutex_);
    last_cancel_ = request->context.cancel;
    const Counted counted{&requests};  // last
    if (request->path == "/slow") {
      held_.push_back(respond);
    } else if (request->path == "/late") {
      threads_.emplace_back([respond] {
        std::this_thread::sleep_for(milliseconds(100));  // what makes the answer late
        respond.Send(HttpResponse{.body = "late"});
      });
    } else if (request->path == "/throw") {
      respond.Send([]() -> HttpResponse { throw std::runtime_error("boom"); });
    } else if (request->path == "/stream") {
      stream = respond.Begin(HttpResponse{.content_type = "text/plain"}, [this] { ++ready; });
    } else if (request->path == "/big") {
      respond.Send(HttpResponse{.body = std::string(8 << 20, 'x')});
    } else {
      respond.Send(HttpResponse{.body = request->method + " " + request->path + " " + body});
    }
  }
  HttpResponse OnError(const HttpRequest&, int status, const std::string& message) override {
    return HttpResponse{.status = status, .body = message};
  }
  void OnDone(const HttpRequest&, int status, size_t, int64_t items) override {
    last_items = items;
    last_status = status;
  }
  void OnStreams(int change) override { streams += change; }
  void OnStreamDropped() override { ++dropped; }
  void OnConnections(int change) override { connections += change; }
  void OnConnectionRefused() override { ++refused; }
  void OnBytes(size_t, size_t) override {}

  void Release() {
    const std::lock_guard lock(mutex_);
    for (const Responder& respond : held_) respond.Send(HttpResponse{.body = "slow"});
    held_.clear();
  }
  bool LastCancelled() {
    const std::lock_guard lock(mutex_);
    return last_cancel_ && last_cancel_->cancelled();
  }

  std::atomic<int> requests{0}, connections{0}, refused{0}, last_status{0}, streams{0}, dropped{0};
  std::atomic<int64_t> last_items{0};
  std::unique_ptr<Stream> stream;  // of the last request of /stream, once it is counted
  std::atomic<int> ready{0};
  std::shared_ptr<ByteBudget> budget;  // what requests take memory of; null: they count none

 private:
  struct Counted {
    std::atomic<int>* count;
    ~Counted() { ++*count; }
  };
  std::mutex mutex_;
  std::vector<Responder> held_;
  std::vector<std::thread> threads_;
  std::shared_ptr<CancelToken> last_cancel_;
};

class Client {
 public:
  explicit Client(uint16_t port) : Client() { ConnectTo(port); }
  Client() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    const timeval limit{.tv_sec = 10, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  }
  void ConnectTo(uint16_t port) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  }
  ~Client() { Close(); }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  void CloseSending() { shutdown(fd_, SHUT_WR); }
  void Send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
      if (n <= 0) return;
      text.remove_prefix(static_cast<size_t>(n));
    }
  }
  // What comes next; "" if the server closes.
  std::string ReadSome() {
    if (read_.empty()) Fill();
    return std::exchange(read_, "");
  }
  // Everything until the server closes.
  std::string ReadAll() {
    while (Fill()) {
    }
    return std::exchange(read_, "");
  }
  // Until `text` was seen; what comes after stays. "" if the server closes before.
  std::string ReadTo(std::string_view text) {
    for (;;) {
      const size_t at = read_.find(text);
      if (at != std::string::npos) {
        std::string head = read_.substr(0, at + text.size());
        read_.erase(0, at + text.size());
        return head;
      }
      if (!Fill()) return "";
    }
  }

 private:
  bool Fill() {
    char block[65536];
    const ssize_t n = recv(fd_, block, sizeof(block), 0);
    if (n <= 0) return false;
    read_.append(block, static_cast<size_t>(n));
    return true;
  }
  int fd_;
  std::string read_;
};

class ListenerTest : public testing::Test {
 protected:
  void Start(ServerOptions options = {}) {
    options.port = 0;
    auto started = Listener::Start(&handler_, options);
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    listener_ = *std::move(started);
  }
  Client Connect() { return Client(listener_->port()); }
  static bool Within2s(const std::function<bool()>& true_now) {
    return Eventually(true_now, std::chrono::seconds(2));
  }
  // Until the head has come; handler_.stream is the test's from then on.
  void BeginStream(Client* client, const std::string& more = "") {
    const int before = handler_.requests;
    client->Send("POST /stream HTTP/1.1\r\nHost: h\r\n" + more + "Content-Length: 0\r\n\r\n");
    ASSERT_TRUE(Within2s([&] { return handler_.requests == before + 1; }));
    ASSERT_NE(client->ReadTo("\r\n\r\n"), "");
  }
  Handler handler_;
  std::unique_ptr<Listener> listener_;
};

inline std::string Post(const std::string& path, const std::string& body,
                        const std::string& more = "") {
  return "POST " + path + " HTTP/1.1\r\nHost: h\r\n" + more +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

}  // namespace penstock::http
