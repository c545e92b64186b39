#include "lab/live_watchers.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <string_view>

#include "load/process_stat.h"

namespace penstock::lab {
namespace {

Expected<int> Connect(const load::HttpTarget& target) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(target.port);
  if (inet_pton(AF_INET, target.host.c_str(), &address.sin_addr) != 1) {
    return Status::InvalidArgument("watchers need an IPv4 address, not " + target.host, "host");
  }
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::string request = "GET /v1/live HTTP/1.1\r\nHost: " + load::AuthorityOf(target) + "\r\n";
  if (!target.api_key.empty()) request += "Authorization: Bearer " + target.api_key + "\r\n";
  request += "\r\n";
  if (fd >= 0 && connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
      send(fd, request.data(), request.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(request.size())) {
    return fd;
  }
  if (fd >= 0) close(fd);
  return Status(StatusCode::kUnavailable, "a watcher cannot connect to " + load::UrlOf(target));
}

}  // namespace

Expected<std::unique_ptr<LiveWatchers>> LiveWatchers::Open(const load::HttpTarget& target,
                                                           int count) {
  std::unique_ptr<LiveWatchers> watchers(new LiveWatchers);
  for (int i = 0; i < count; ++i) {
    PENSTOCK_ASSIGN_OR_RETURN(const int fd, Connect(target));
    watchers->sockets_.push_back(fd);
  }
  watchers->wake_ = eventfd(0, EFD_CLOEXEC);
  watchers->thread_ = std::thread([all = watchers.get()] { all->Read(); });
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (watchers->begun_ < watchers->sockets_.size()) {
    if (watchers->failed_ || std::chrono::steady_clock::now() >= give_up) {
      return Status(StatusCode::kUnavailable,
                    load::UrlOf(target) + "/v1/live did not answer a watcher with events");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return watchers;
}

LiveWatchers::~LiveWatchers() {
  if (thread_.joinable()) {
    eventfd_write(wake_, 1);
    thread_.join();
  }
  if (wake_ >= 0) close(wake_);
  for (const int fd : sockets_) close(fd);
}

void LiveWatchers::Read() {
  std::vector<pollfd> polled;
  for (const int fd : sockets_) polled.push_back({fd, POLLIN, 0});
  polled.push_back({wake_, POLLIN, 0});
  std::vector<bool> begun(sockets_.size());
  std::array<char, 64 << 10> buffer;
  while (poll(polled.data(), polled.size(), -1) >= 0 && polled.back().revents == 0) {
    for (size_t i = 0; i < sockets_.size(); ++i) {
      if (polled[i].revents == 0) continue;
      const ssize_t size = recv(sockets_[i], buffer.data(), buffer.size(), 0);
      if (size <= 0) {
        polled[i].fd = -1;  // left out from here on
        failed_ = true;
        continue;
      }
      bytes_ += static_cast<uint64_t>(size);
      const std::string_view text(buffer.data(), static_cast<size_t>(size));
      if (!begun[i]) {
        if (!text.starts_with("HTTP/1.1 200")) failed_ = true;
        begun[i] = true;
        ++begun_;
      }
    }
    thread_ns_ = static_cast<int64_t>(load::ThreadCpuSeconds() * 1e9);
  }
}

}  // namespace penstock::lab
