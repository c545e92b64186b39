#include "lab/http_echo.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstring>
#include <vector>

#include "base/printable.h"
#include "load/latency.h"

namespace penstock::lab {
namespace {

using SteadyClock = std::chrono::steady_clock;

class Connection {
 public:
  Connection() = default;
  ~Connection() {
    if (socket_ >= 0) close(socket_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  Status Open(uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
    const int on = 1;
    if (socket_ < 0 ||
        connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      return {StatusCode::kUnavailable, fmt::format("127.0.0.1:{}: {}", port, strerror(errno))};
    }
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return Status::Ok();
  }
  // Requests are small: the socket's buffer takes them whole.
  Status Send(const std::string& request) {
    begin_ = SteadyClock::now();
    answer_.clear();
    if (send(socket_, request.data(), request.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(request.size())) {
      return {StatusCode::kUnavailable, "a request could not be sent whole"};
    }
    return Status::Ok();
  }
  // Reads what is there. True: the answer is complete.
  Expected<bool> Read() {
    char bytes[65536];
    const ssize_t count = recv(socket_, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (count <= 0) {
      if (count < 0 && errno == EAGAIN) return false;
      return Status{StatusCode::kUnavailable, "the server closed a connection"};
    }
    answer_.append(bytes, static_cast<size_t>(count));
    const size_t head = answer_.find("\r\n\r\n");
    if (head == std::string::npos) return false;
    const size_t field = answer_.find("Content-Length: ");
    size_t length = 0;
    if (field == std::string::npos || field > head) {
      return Status{StatusCode::kUnavailable, "an answer has no length"};
    }
    const char* const digits = answer_.data() + field + strlen("Content-Length: ");
    std::from_chars(digits, answer_.data() + head, length);
    if (answer_.size() < head + 4 + length) return false;
    if (!answer_.starts_with("HTTP/1.1 200")) {
      return Status{StatusCode::kUnavailable, Printable(answer_, 500)};
    }
    return true;
  }

  int descriptor() const { return socket_; }
  SteadyClock::time_point begin() const { return begin_; }
  const std::string& answer() const { return answer_; }

 private:
  int socket_ = -1;
  SteadyClock::time_point begin_;
  std::string answer_;
};

}  // namespace

Expected<HttpEchoResult> RunHttpEcho(const HttpEchoOptions& options) {
  std::vector<Connection> connections(static_cast<size_t>(options.connections));
  struct Epoll {
    int descriptor = epoll_create1(0);
    ~Epoll() { close(descriptor); }
  } const poll;
  for (size_t i = 0; i < connections.size(); ++i) {
    PENSTOCK_RETURN_IF_ERROR(connections[i].Open(options.port));
    epoll_event event{.events = EPOLLIN, .data = {.u64 = i}};
    epoll_ctl(poll.descriptor, EPOLL_CTL_ADD, connections[i].descriptor(), &event);
    PENSTOCK_RETURN_IF_ERROR(connections[i].Send(options.request));
  }
  const auto end = SteadyClock::now() + std::chrono::duration<double>(options.seconds);
  load::LatencyHistogram latency;
  HttpEchoResult result;
  uint64_t done = 0;
  for (auto now = SteadyClock::now(); now < end;) {
    epoll_event events[64];
    const int ready = epoll_wait(poll.descriptor, events, 64, 100);
    now = SteadyClock::now();
    for (int i = 0; i < ready; ++i) {
      Connection& connection = connections[events[i].data.u64];
      PENSTOCK_ASSIGN_OR_RETURN(const bool complete, connection.Read());
      if (!complete) continue;
      latency.Add(std::chrono::duration<double, std::milli>(now - connection.begin()).count());
      ++done;
      result.last_answer = connection.answer();
      PENSTOCK_RETURN_IF_ERROR(connection.Send(options.request));
    }
  }
  result.requests_per_s = static_cast<double>(done) / options.seconds;
  result.p50_us = latency.PercentileMs(0.5) * 1e3;
  return result;
}

}  // namespace penstock::lab
