#include "lab/liveness_probe.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <optional>
#include <thread>

#include "load/clock_units.h"
#include "os/thread_latency.h"

namespace penstock::lab {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using Parser = http::response_parser<http::string_body>;

constexpr timeval kPatience{5, 0};

// The clock of the kernel's time stamps.
double RealtimeMs() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

// Blocks until something has come. `arrived_ms`: when the kernel had it; left alone where it does
// not say. The number of bytes, 0 at the end of the stream, or -1 and errno.
ssize_t ReadStamped(int fd, char* data, size_t size, double* arrived_ms) {
  iovec piece{data, size};
  alignas(cmsghdr) std::array<char, 256> control;
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = recvmsg(fd, &message, 0);
  for (cmsghdr* one = CMSG_FIRSTHDR(&message); got > 0 && one != nullptr;
       one = CMSG_NXTHDR(&message, one)) {
    if (one->cmsg_level != SOL_SOCKET || one->cmsg_type != SCM_TIMESTAMPNS) continue;
    timespec stamp{};
    std::memcpy(&stamp, CMSG_DATA(one), sizeof stamp);
    *arrived_ms =
        1e3 * static_cast<double>(stamp.tv_sec) + 1e-6 * static_cast<double>(stamp.tv_nsec);
  }
  return got;
}

}  // namespace

struct LivenessProbe::Impl {
  load::HttpTarget target;
  Clock::duration interval;
  std::atomic<bool> stopping{false};
  Result result;
  std::thread thread;

  void Loop();
  bool Probe(std::optional<tcp::socket>* socket, asio::io_context* context);
  error_code Connect(tcp::socket* socket);
  void AddArrival(double ms);
};

error_code LivenessProbe::Impl::Connect(tcp::socket* socket) {
  error_code ec;
  tcp::resolver resolver(socket->get_executor());
  const auto found = resolver.resolve(target.host, std::to_string(target.port),
                                      tcp::resolver::numeric_service, ec);
  if (ec || found.empty()) return ec ? ec : error_code(asio::error::host_not_found);
  socket->connect(found.begin()->endpoint(), ec);
  if (ec) return ec;
  socket->set_option(tcp::no_delay(true), ec);
  const int fd = socket->native_handle();
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
  return ec;
}

void LivenessProbe::Impl::AddArrival(double ms) {
  result.arrival.Add(ms);
  for (double later = ms - load::Ms(interval); later > load::Ms(interval);
       later -= load::Ms(interval)) {
    result.arrival.Add(later);
  }
}

bool LivenessProbe::Impl::Probe(std::optional<tcp::socket>* socket, asio::io_context* context) {
  error_code ec;
  if (!*socket) {
    socket->emplace(*context);
    ec = Connect(&**socket);
  }
  static constexpr std::string_view kRequest = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const auto begin = Clock::now();
  const double begin_ms = RealtimeMs();
  if (!ec) asio::write(**socket, asio::buffer(kRequest), ec);
  Parser parser;
  parser.eager(true);
  std::array<char, 4096> data;
  size_t size = 0;
  double arrived_ms = 0;
  bool waited_in_vain = false;
  while (!ec && !parser.is_done() && size < data.size()) {
    const ssize_t got = ReadStamped((*socket)->native_handle(), data.data() + size,
                                    data.size() - size, &arrived_ms);
    if (got < 0 && errno == EINTR) continue;
    waited_in_vain = got < 0 && errno == EAGAIN;
    if (got <= 0) {
      ec = asio::error::eof;
      break;
    }
    size += static_cast<size_t>(got);
    const size_t used = parser.put(asio::buffer(data.data(), size), ec);
    std::memmove(data.data(), data.data() + used, size - used);
    size -= used;
    if (ec == http::error::need_more) ec = {};
  }
  const double answer_ms = load::Ms(Clock::now() - begin);
  if (!ec) result.answer.Add(answer_ms);
  if (!ec || waited_in_vain) {
    const double to_arrival = arrived_ms - begin_ms;
    // The clock of time stamps can be set; the other one cannot.
    AddArrival(to_arrival > 0 && to_arrival < answer_ms ? to_arrival : answer_ms);
  }
  const bool good = !ec && parser.is_done() && parser.get().result_int() == 200;
  if (!good || !parser.keep_alive()) socket->reset();
  return good;
}

void LivenessProbe::Impl::Loop() {
  // A probe that waits for a processor itself would measure that.
  result.raised_priority = setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), -20) == 0;
  PreferShortSlices();
  asio::io_context context{1};
  std::optional<tcp::socket> socket;
  auto next = Clock::now();
  while (!stopping.load(std::memory_order_relaxed)) {
    std::this_thread::sleep_until(next);
    const auto now = Clock::now();
    result.self_late.Add(load::Ms(now - next));
    if (!Probe(&socket, &context)) ++result.failures;
    next = std::max(next + interval, Clock::now());
  }
}

LivenessProbe::LivenessProbe(const load::HttpTarget& target, double interval_ms)
    : impl_(std::make_unique<Impl>()) {
  impl_->target = target;
  impl_->interval = std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double, std::milli>(interval_ms));
  impl_->thread = std::thread([this] { impl_->Loop(); });
}

LivenessProbe::~LivenessProbe() {
  if (impl_->thread.joinable()) Stop();
}

LivenessProbe::Result LivenessProbe::Stop() {
  impl_->stopping.store(true, std::memory_order_relaxed);
  impl_->thread.join();
  return std::move(impl_->result);
}

}  // namespace penstock::lab
