#include "lab/hostile_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <chrono>
#include <functional>
#include <limits>
#include <optional>
#include <thread>
#include <unordered_set>

#include "load/clock_units.h"
#include "load/process_stat.h"

namespace penstock::lab {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using Manner = HostileManner;
using Right = HostileAnswer;

constexpr size_t kReadBytes = 64 << 10;
// For clients that do not take their answer, so that it stays with the server.
constexpr int kSmallWindowBytes = 4096;

enum class Ending { kAnswered, kClosed, kLeft, kLate };

// One client for the time of one request. Operations hold on to it.
class Visit : public std::enable_shared_from_this<Visit> {
 public:
  using Done = std::function<void(const std::shared_ptr<Visit>&)>;

  Visit(asio::io_context* context, const HostileOptions& options, const HostileRequest& request,
        HostileKind* kind, Done done)
      : options_(options),
        request_(request),
        kind_(kind),
        done_(std::move(done)),
        socket_(*context),
        deadline_(*context),
        pace_(*context) {}

  void Start(const tcp::endpoint& endpoint);
  // The run is over: clients that only hold a connection leave.
  void Hurry() {
    if (Holds() || request_.manner == Manner::kDrip) End(Ending::kLeft);
  }

 private:
  // Whether the client now stays for no answer.
  bool Holds() const {
    return request_.manner == Manner::kReadSlowly || request_.manner == Manner::kReadNothing ||
           idle_;
  }
  void OnConnected();
  void OnWritten(error_code ec);
  void Drip(size_t at);
  void Read();
  void OnRead(error_code ec);
  void OnAnswer();
  void ReadSlowly();
  void StayIdle();
  void SetDeadline(double seconds, Ending ending);
  void Judge(Ending ending);
  void End(Ending ending);

  template <typename Handler>
  auto Guard(Handler handler) {
    return [self = shared_from_this(), handler](error_code ec, auto... rest) {
      if (!self->ended_) handler(ec, rest...);
    };
  }

  const HostileOptions& options_;
  const HostileRequest& request_;
  HostileKind* const kind_;
  const Done done_;
  tcp::socket socket_;
  asio::steady_timer deadline_;
  asio::steady_timer pace_;
  boost::beast::flat_buffer buffer_;
  std::optional<http::response_parser<http::buffer_body>> parser_;
  std::array<char, kReadBytes> body_;
  Clock::time_point begun_;
  int answers_ = 0;
  bool answered_right_ = true;  // every answer so far
  bool idle_ = false;
  bool ended_ = false;
};

void Visit::Start(const tcp::endpoint& endpoint) {
  ++kind_->sent;
  begun_ = Clock::now();
  error_code ignored;
  socket_.open(endpoint.protocol(), ignored);
  if (request_.manner == Manner::kReadSlowly || request_.manner == Manner::kReadNothing) {
    socket_.set_option(asio::socket_base::receive_buffer_size(kSmallWindowBytes), ignored);
  }
  socket_.set_option(tcp::no_delay(true), ignored);
  SetDeadline(options_.patience_s, Ending::kLate);
  socket_.async_connect(endpoint, Guard([this](error_code ec) {
                          if (ec) return End(Ending::kClosed);
                          OnConnected();
                        }));
}

// Reads from the beginning: a server may refuse a body that it has not read, and close.
void Visit::OnConnected() {
  if (Holds()) {
    SetDeadline(options_.hold_s, Ending::kLeft);
  } else if (request_.bytes.empty()) {
    return StayIdle();
  } else {
    Read();
  }
  if (request_.manner == Manner::kReadSlowly) ReadSlowly();
  if (request_.manner == Manner::kDrip) return Drip(0);
  asio::async_write(socket_, asio::buffer(request_.bytes),
                    Guard([this](error_code ec, size_t) { OnWritten(ec); }));
}

void Visit::OnWritten(error_code ec) {
  if (request_.manner == Manner::kLeaveInBody) return End(Ending::kLeft);
  // An answer may have come before the connection was closed: the reader will say.
  if (ec) return Holds() ? End(Ending::kClosed) : void();
  error_code ignored;
  if (request_.manner == Manner::kHalfClose) {
    socket_.shutdown(tcp::socket::shutdown_send, ignored);
  }
}

void Visit::Drip(size_t at) {
  if (at == request_.bytes.size()) return;
  asio::async_write(socket_, asio::buffer(request_.bytes.data() + at, 1),
                    Guard([this, at](error_code ec, size_t) {
                      if (ec) return;
                      pace_.expires_after(load::Seconds(options_.drip_ms / 1000));
                      pace_.async_wait(Guard([this, at](error_code) { Drip(at + 1); }));
                    }));
}

void Visit::Read() {
  if (!parser_) {
    parser_.emplace();
    parser_->body_limit(std::numeric_limits<uint64_t>::max());
  }
  parser_->get().body().data = body_.data();
  parser_->get().body().size = body_.size();
  http::async_read_some(socket_, buffer_, *parser_,
                        Guard([this](error_code ec, size_t) { OnRead(ec); }));
}

void Visit::OnRead(error_code ec) {
  if (ec == http::error::need_buffer) ec = {};
  if (ec) return End(Ending::kClosed);
  const bool body_came = parser_->get().body().size < body_.size();
  if (request_.manner == Manner::kLeaveInAnswer && body_came && !parser_->is_done()) {
    const bool served = parser_->get().result_int() / 100 == 2;
    if (served) return End(Ending::kLeft);
  }
  if (!parser_->is_done()) return Read();
  OnAnswer();
}

void Visit::OnAnswer() {
  const unsigned status = parser_->get().result_int();
  const bool keeps = parser_->keep_alive();
  const bool success = status / 100 == 2;
  const bool busy = status == 429 || status == 503;
  ++(success ? kind_->served : busy ? kind_->busy : kind_->refused);
  if (status == 500) ++kind_->internal_errors;
  const bool possible = success || status / 100 == 4 || status / 100 == 5;
  const bool right = request_.right == Right::kRefusal  ? possible && !success
                     : request_.right == Right::kServed ? success || busy || status == 413
                                                        : possible;
  if (!right && answered_right_) {
    answered_right_ = false;
    if (kind_->first_wrong.empty()) kind_->first_wrong = fmt::format("status {}", status);
  }
  parser_.reset();
  ++answers_;
  if (answers_ < request_.answers) return keeps ? Read() : End(Ending::kClosed);
  if (request_.manner == Manner::kStayIdle && keeps) return StayIdle();
  if (buffer_.size() > 0 && answered_right_) {
    answered_right_ = false;
    if (kind_->first_wrong.empty()) kind_->first_wrong = "more answers than requests";
  }
  End(Ending::kAnswered);
}

void Visit::ReadSlowly() {
  socket_.async_read_some(asio::buffer(body_.data(), 1024), Guard([this](error_code ec, size_t) {
                            if (ec) return End(Ending::kClosed);
                            pace_.expires_after(load::Seconds(options_.slow_read_ms / 1000));
                            pace_.async_wait(Guard([this](error_code) { ReadSlowly(); }));
                          }));
}

void Visit::StayIdle() {
  idle_ = true;
  SetDeadline(options_.idle_s, Ending::kLeft);
  socket_.async_read_some(asio::buffer(body_),
                          Guard([this](error_code, size_t) { End(Ending::kClosed); }));
}

void Visit::SetDeadline(double seconds, Ending ending) {
  deadline_.expires_after(load::Seconds(seconds));
  deadline_.async_wait(Guard([this, ending](error_code ec) {
    if (!ec) End(ending);
  }));
}

void Visit::Judge(Ending ending) {
  const bool all_answered = answers_ >= request_.answers;
  if (!idle_) {
    const std::chrono::duration<double, std::milli> time = Clock::now() - begun_;
    if (ending != Ending::kLeft) kind_->slowest_ms = std::max(kind_->slowest_ms, time.count());
  }
  if (ending == Ending::kLeft) ++kind_->left;
  if (ending == Ending::kLate) ++kind_->late;
  if (ending == Ending::kClosed && !all_answered) {
    ++kind_->closed;
    if (request_.right == Right::kServed && answered_right_) {
      answered_right_ = false;
      if (kind_->first_wrong.empty()) {
        kind_->first_wrong = fmt::format("closed after {} answers", answers_);
      }
    }
  }
  if (!answered_right_) ++kind_->wrong;
}

void Visit::End(Ending ending) {
  if (ended_) return;
  ended_ = true;
  Judge(ending);
  error_code ignored;
  if (ending == Ending::kLeft && !idle_) {
    socket_.set_option(asio::socket_base::linger(true, 0), ignored);
  }
  socket_.close(ignored);
  deadline_.cancel();
  pace_.cancel();
  done_(shared_from_this());
}

}  // namespace

uint64_t HostileResult::Sum(uint64_t HostileKind::*field) const {
  uint64_t sum = 0;
  for (const HostileKind& kind : kinds) sum += kind.*field;
  return sum;
}

struct HostileLoad::Impl {
  Impl(const load::HttpTarget& target_given, const HostileOptions& options_given,
       std::shared_ptr<const std::vector<HostileRequest>> requests_given)
      : options(options_given), requests(std::move(requests_given)), arrival(context) {
    endpoint = {asio::ip::make_address(target_given.host), target_given.port};
    owed.resize(requests->size());
    for (const HostileRequest& request : *requests) {
      weight_sum += request.weight;
      result.kinds.emplace_back().name = request.name;
    }
    next = Clock::now();
    Schedule();
    thread = std::thread([this] {
      context.run();
      result.cpu_s = load::ThreadCpuSeconds();
    });
  }

  void Schedule();
  size_t NextKind();
  void Arrive();
  void StopIfDone() {
    if (stopping && visits.empty()) context.stop();
  }

  const HostileOptions options;
  const std::shared_ptr<const std::vector<HostileRequest>> requests;
  asio::io_context context{1};
  tcp::endpoint endpoint;
  asio::steady_timer arrival;
  Clock::time_point next;
  double weight_sum = 0;
  std::vector<double> owed;  // of each kind: requests that are due
  std::unordered_set<std::shared_ptr<Visit>> visits;
  bool stopping = false;
  HostileResult result;
  std::thread thread;
};

void HostileLoad::Impl::Schedule() {
  arrival.expires_at(next);
  arrival.async_wait([this](error_code ec) {
    if (!ec && !stopping) Arrive();
  });
}

// The kind that is owed most: any stretch of requests holds the kinds in about their proportion.
size_t HostileLoad::Impl::NextKind() {
  for (size_t i = 0; i < owed.size(); ++i) owed[i] += (*requests)[i].weight / weight_sum;
  const size_t kind =
      static_cast<size_t>(std::max_element(owed.begin(), owed.end()) - owed.begin());
  owed[kind] -= 1;
  return kind;
}

void HostileLoad::Impl::Arrive() {
  if (visits.size() < static_cast<size_t>(options.clients)) {
    const size_t kind = NextKind();
    auto visit = std::make_shared<Visit>(&context, options, (*requests)[kind], &result.kinds[kind],
                                         [this](const auto& ended) {
                                           visits.erase(ended);
                                           StopIfDone();
                                         });
    visits.insert(visit);
    visit->Start(endpoint);
  } else {
    ++result.not_sent;
  }
  next = std::max(next + load::Seconds(1 / options.rate), Clock::now());
  Schedule();
}

HostileLoad::HostileLoad(const load::HttpTarget& target, const HostileOptions& options,
                         std::shared_ptr<const std::vector<HostileRequest>> requests)
    : impl_(std::make_unique<Impl>(target, options, std::move(requests))) {}

HostileLoad::~HostileLoad() {
  if (impl_->thread.joinable()) Stop();
}

HostileResult HostileLoad::Stop() {
  asio::post(impl_->context, [this] {
    impl_->stopping = true;
    impl_->arrival.cancel();
    const auto visits = impl_->visits;  // those that leave go from the set
    for (const auto& visit : visits) visit->Hurry();
    impl_->StopIfDone();
  });
  impl_->thread.join();
  return std::move(impl_->result);
}

}  // namespace penstock::lab
