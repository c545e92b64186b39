// FakeServer: for tests of the load generators.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "load/http_load.h"

namespace penstock::load {

// A server with a thread a connection whose answers the test decides. An empty answer closes the
// connection instead.
class FakeServer {
 public:
  using Handler = std::function<std::string(const std::string& request)>;

  explicit FakeServer(Handler handler, std::chrono::milliseconds livez_delay = {})
      : handler_(std::move(handler)), livez_delay_(livez_delay) {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener_, 128), 0);
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { Accept(); });
  }
  ~FakeServer() {
    shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    close(listener_);
    for (std::thread& thread : threads_) thread.join();
  }
  HttpTarget target() const { return {.host = "127.0.0.1", .port = port_}; }
  int connections() const { return connections_; }

 private:
  void Accept() {
    for (int fd; (fd = accept(listener_, nullptr, nullptr)) >= 0;) {
      ++connections_;
      threads_.emplace_back([this, fd] { Serve(fd); });
    }
  }
  void Serve(int fd) {
    std::string data;
    char chunk[4096];
    for (ssize_t got; (got = read(fd, chunk, sizeof chunk)) > 0;) {
      data.append(chunk, static_cast<size_t>(got));
      bool goes_on = true;
      while (goes_on) {
        const std::string request = TakeRequest(&data);
        if (request.empty()) break;
        const std::string answer = AnswerTo(request);
        goes_on = !answer.empty() && send(fd, answer.data(), answer.size(), MSG_NOSIGNAL) >= 0;
      }
      if (!goes_on) break;
    }
    close(fd);
  }
  // The first whole request of `data`, or "".
  static std::string TakeRequest(std::string* data) {
    const size_t head = data->find("\r\n\r\n");
    if (head == std::string::npos) return "";
    size_t body = 0;
    const size_t at = data->find("Content-Length: ");
    if (at < head) std::from_chars(data->data() + at + 16, data->data() + data->size(), body);
    if (data->size() < head + 4 + body) return "";
    std::string request = data->substr(0, head + 4 + body);
    data->erase(0, request.size());
    return request;
  }
  std::string AnswerTo(const std::string& request) {
    if (!request.starts_with("GET /livez ")) return handler_(request);
    std::this_thread::sleep_for(livez_delay_);  // the stall that a test asks for
    return Answer(200, "{}");
  }

 public:
  static std::string Answer(int status, const std::string& body, const std::string& headers = "") {
    return "HTTP/1.1 " + std::to_string(status) +
           " X\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + headers + "\r\n" +
           body;
  }

 private:
  const Handler handler_;
  const std::chrono::milliseconds livez_delay_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<int> connections_{0};
  std::vector<std::thread> threads_;
  std::thread acceptor_;
};

}  // namespace penstock::load
