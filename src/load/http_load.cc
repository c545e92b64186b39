#include "load/http_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <deque>
#include <limits>
#include <optional>
#include <random>

#include "load/clock_units.h"
#include "load/http_link.h"
#include "load/http_request.h"
#include "load/process_stat.h"

namespace penstock {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPauseAfterLoss{20};
constexpr std::chrono::milliseconds kGiveUpInterval{200};

struct Request {
  WireRequest wire;
  Clock::time_point intended;
  Clock::time_point sent;
  bool with_timeout = false;
  bool leaves = false;
  bool measured = false;
  bool written = false;
};

enum class Outcome { kAnswered, kLeft, kLost };

class Stream;

// Sends one request at a time, over one connection as long as it is kept.
class Client {
 public:
  Client(asio::io_context* context, Stream* stream) : leave_timer_(*context), stream_(stream) {}

  void Start(Request request);
  // Abandons the request under way without telling the stream.
  void Abandon() {
    busy_ = false;
    Close();
  }
  bool busy() const { return busy_; }
  const Request& request() const { return request_; }

 private:
  void Write();
  void Read();
  void ArmLeaving();
  void Finish(Outcome outcome);
  void Close() {
    if (link_ != nullptr) link_->Close();
    link_ = nullptr;
    leave_timer_.cancel();
  }

  asio::steady_timer leave_timer_;
  Stream* const stream_;
  // Null: not connected. An operation of a former link ends on that link, which is not this one.
  std::shared_ptr<HttpLink> link_;
  Request request_;
  bool busy_ = false;
  uint64_t serial_ = 0;  // of the request: a timer that has fired cannot be cancelled
};

// State shared by all streams of a run.
struct Run {
  asio::io_context context{1};
  HttpTarget target;
  tcp::endpoint endpoint;
  std::unique_ptr<asio::ssl::context> tls;  // null: plain
  LoadWindow window;
  Clock::time_point begin;  // of the window
  Clock::time_point end;
  uint64_t issued = 0;
  uint64_t outstanding = 0;
  bool stopped = false;  // no further requests are made
  Clock::time_point last_answer;

  bool InWindow(Clock::time_point t) const { return t >= begin && t < end; }
  bool MayIssue(Clock::time_point t) const {
    return !stopped && t < end && (window.requests_max == 0 || issued < window.requests_max);
  }
  void StopIfDone() {
    if (outstanding == 0 && !MayIssue(Clock::now())) context.stop();
  }
};

class Stream {
 public:
  Stream(Run* run, const HttpLoad& load)
      : run_(run), load_(load), random_(load.seed), arrival_timer_(run->context) {
    result_.name = load.name;
  }

  void Start() {
    if (load_.rate > 0) {
      next_arrival_ = Clock::now();
      ScheduleArrival();
      return;
    }
    for (int i = 0; i < load_.concurrency; ++i) Issue(NewClient(), Clock::now());
  }
  void StopArrivals() { arrival_timer_.cancel(); }

  void OnWritten() { ++result_.sent; }
  void OnDone(Client* client, Outcome outcome, const HttpLink::Response* response);
  // At the end of the drain.
  void AbandonAll() {
    for (const auto& client : clients_) {
      if (!client->busy()) continue;
      ++result_.no_answer;
      if (client->request().written) ++result_.lost_after_sent;
      if (client->request().measured) ++result_.errors[LoadResult::kNoAnswer];
      client->Abandon();
    }
  }
  LoadResult TakeResult() {
    result_.connections = clients_.size();
    return std::move(result_);
  }

  const HttpLoad& load() const { return load_; }
  Run* run() { return run_; }
  double Uniform() { return std::uniform_real_distribution<double>(0, 1)(random_); }

 private:
  Client* NewClient() {
    clients_.push_back(std::make_unique<Client>(&run_->context, this));
    return clients_.back().get();
  }
  void Issue(Client* client, Clock::time_point intended);
  void IssueAfterPause(Client* client);
  void ScheduleArrival();
  void Arrive();
  void CountAnswer(const Request& request, const HttpLink::Response& response);

  Run* const run_;
  const HttpLoad load_;
  std::mt19937_64 random_;
  asio::steady_timer arrival_timer_;
  Clock::time_point next_arrival_;
  std::vector<std::unique_ptr<Client>> clients_;
  std::vector<Client*> idle_;              // open loop
  std::deque<Clock::time_point> backlog_;  // open loop: arrived, no connection free
  LoadResult result_;
};

void Client::Start(Request request) {
  request_ = std::move(request);
  busy_ = true;
  if (link_ != nullptr) return Write();
  Run* const run = stream_->run();
  link_ = std::make_shared<HttpLink>(&run->context, run->tls.get());
  link_->Connect(run->endpoint, run->target.host, [this, link = link_](const error_code& ec) {
    if (link != link_) return;
    if (ec) return Finish(Outcome::kLost);
    Write();
  });
}

void Client::Write() {
  request_.sent = Clock::now();
  link_->Write(std::move(request_.wire.bytes), [this, link = link_](const error_code& ec) {
    if (link != link_) return;
    if (ec) return Finish(Outcome::kLost);
    request_.written = true;
    stream_->OnWritten();
    if (request_.leaves) ArmLeaving();
    Read();
  });
}

void Client::ArmLeaving() {
  leave_timer_.expires_after(Seconds(stream_->load().leave_ms_max / 1000 * stream_->Uniform()));
  leave_timer_.async_wait([this, serial = serial_](error_code ec) {
    if (!ec && serial == serial_ && busy_) Finish(Outcome::kLeft);
  });
}

void Client::Read() {
  link_->Read([this, link = link_](const error_code& ec) {
    if (link != link_) return;
    leave_timer_.cancel();
    Finish(ec ? Outcome::kLost : Outcome::kAnswered);
  });
}

void Client::Finish(Outcome outcome) {
  busy_ = false;
  ++serial_;
  const auto link = link_;  // the answer lies in it
  if (outcome != Outcome::kAnswered || !link->keep_alive()) Close();
  stream_->OnDone(this, outcome, outcome == Outcome::kAnswered ? &link->response() : nullptr);
}

void Stream::Issue(Client* client, Clock::time_point intended) {
  if (!run_->MayIssue(Clock::now())) {
    if (load_.rate > 0) idle_.push_back(client);
    return;
  }
  ++run_->issued;
  ++run_->outstanding;
  Request request;
  request.with_timeout = load_.timeout_ms > 0 && Uniform() < load_.timeout_share;
  request.leaves = load_.leave_share > 0 && Uniform() < load_.leave_share;
  request.wire = MakeRequest(run_->target, load_, request.with_timeout);
  request.intended = intended;
  request.measured = run_->InWindow(intended);
  client->Start(std::move(request));
}

// A server that refuses connections would be asked again as fast as the processor can.
void Stream::IssueAfterPause(Client* client) {
  auto timer = std::make_shared<asio::steady_timer>(run_->context, kPauseAfterLoss);
  timer->async_wait([this, client, timer](error_code) { Issue(client, Clock::now()); });
}

void Stream::ScheduleArrival() {
  std::exponential_distribution<double> gap(load_.rate / load_.burst);
  next_arrival_ += Seconds(gap(random_));
  arrival_timer_.expires_at(next_arrival_);
  arrival_timer_.async_wait([this](error_code ec) {
    if (!ec) Arrive();
  });
}

void Stream::Arrive() {
  if (!run_->MayIssue(Clock::now())) return run_->StopIfDone();
  for (int i = 0; i < load_.burst; ++i) {
    if (!idle_.empty()) {
      Client* const client = idle_.back();
      idle_.pop_back();
      Issue(client, next_arrival_);
    } else if (clients_.size() < static_cast<size_t>(load_.concurrency)) {
      Issue(NewClient(), next_arrival_);
    } else if (backlog_.size() < LoadResult::kBacklogMax) {
      backlog_.push_back(next_arrival_);
    } else {
      ++result_.not_sent;
    }
  }
  ScheduleArrival();
}

void Stream::CountAnswer(const Request& request, const HttpLink::Response& response) {
  const auto now = Clock::now();
  const int status = static_cast<int>(response.result_int());
  ++result_.by_status[status];
  if (status == 429 && response.find(http::field::retry_after) == response.end()) {
    ++result_.no_retry_after;
  }
  if (request.with_timeout) {
    result_.deadline_over_ms_max =
        std::max(result_.deadline_over_ms_max,
                 Ms(now - request.sent) - static_cast<double>(load_.timeout_ms));
  }
  if (status == 503 && !request.with_timeout) ++result_.expired_without_deadline;
  const bool ok = status >= 200 && status < 300;
  if (request.measured && ok) result_.latency.Add(Ms(now - request.intended));
  if (request.measured && !ok) ++result_.errors[status];
  if (ok && run_->InWindow(now)) {
    ++result_.ok;
    result_.texts += request.wire.texts;
    result_.tokens += TokensOfAnswer(response.body());
  }
}

void Stream::OnDone(Client* client, Outcome outcome, const HttpLink::Response* response) {
  const Request& request = client->request();
  run_->last_answer = Clock::now();
  switch (outcome) {
    case Outcome::kAnswered:
      CountAnswer(request, *response);
      break;
    case Outcome::kLeft:
      ++result_.left;
      break;
    case Outcome::kLost:
      ++result_.lost;
      if (request.written) ++result_.lost_after_sent;
      if (request.measured) ++result_.errors[LoadResult::kLost];
      break;
  }
  --run_->outstanding;
  if (load_.rate <= 0 && outcome == Outcome::kLost) {
    IssueAfterPause(client);
  } else if (load_.rate <= 0) {
    Issue(client, Clock::now());
  } else if (!backlog_.empty()) {
    const auto intended = backlog_.front();
    backlog_.pop_front();
    Issue(client, intended);
  } else {
    idle_.push_back(client);
  }
  run_->StopIfDone();
}

Status CheckLoad(const HttpLoad& load) {
  if (load.concurrency < 1 || load.concurrency > HttpLoad::kConnectionsMax) {
    return Status::InvalidArgument(
        fmt::format("concurrency must be from 1 to {}", HttpLoad::kConnectionsMax), "concurrency");
  }
  if (load.batch < 1 || load.burst < 1) {
    return Status::InvalidArgument("batch and burst must be at least 1", "batch");
  }
  if (!(load.rate >= 0 && load.rate <= 1e7)) {
    return Status::InvalidArgument("rate must be from 0 to 10000000", "rate");
  }
  if (load.next_text == nullptr) return Status::InvalidArgument("a load needs texts", "next_text");
  return Status::Ok();
}

// Reads the clocks of processor time at both ends of the window, and ends the run.
class Conductor {
 public:
  Conductor(Run* run, std::vector<std::unique_ptr<Stream>>* streams)
      : run_(run), streams_(streams), timer_(run->context), give_up_timer_(run->context) {}

  void Start() {
    At(run_->begin, [this] { Begin(); });
    if (run_->window.give_up) AskWhetherToGiveUp();
  }
  double client_cpu_s() const { return client_cpu_s_; }
  double server_cpu_s() const { return server_cpu_s_; }
  // For a run that was over before its window was.
  void EndNow() {
    if (began_ && !ended_) ReadClocks();
  }

 private:
  template <typename F>
  void At(Clock::time_point when, F&& act) {
    timer_.expires_at(when);
    timer_.async_wait([act = std::forward<F>(act)](error_code ec) {
      if (!ec) act();
    });
  }
  void AskWhetherToGiveUp() {
    give_up_timer_.expires_after(kGiveUpInterval);
    give_up_timer_.async_wait([this](error_code) {
      if (!run_->window.give_up()) return AskWhetherToGiveUp();
      run_->stopped = true;
      run_->end = std::min(run_->end, Clock::now());
      run_->context.stop();
    });
  }
  void Begin() {
    began_ = true;
    client_cpu_s_ = ThreadCpuSeconds();
    server_cpu_s_ = ServerCpu();
    At(run_->end, [this] { End(); });
  }
  void End() {
    ReadClocks();
    run_->stopped = true;
    for (const auto& stream : *streams_) stream->StopArrivals();
    if (run_->outstanding == 0) return run_->context.stop();
    At(run_->end + Seconds(run_->window.drain_s), [this] { run_->context.stop(); });
  }
  void ReadClocks() {
    ended_ = true;
    client_cpu_s_ = ThreadCpuSeconds() - client_cpu_s_;
    server_cpu_s_ = ServerCpu() - server_cpu_s_;
  }
  double ServerCpu() const {
    return run_->window.server_pid > 0 ? ProcessCpuSeconds(run_->window.server_pid) : 0;
  }

  Run* const run_;
  std::vector<std::unique_ptr<Stream>>* const streams_;
  asio::steady_timer timer_;
  asio::steady_timer give_up_timer_;
  bool began_ = false;
  bool ended_ = false;
  double client_cpu_s_ = 0;
  double server_cpu_s_ = 0;
};

}  // namespace

std::string AuthorityOf(const HttpTarget& target) {
  const bool v6 = target.host.find(':') != std::string::npos;
  return fmt::format("{}:{}", v6 ? "[" + target.host + "]" : target.host, target.port);
}

std::string UrlOf(const HttpTarget& target) {
  return (target.tls ? "https://" : "http://") + AuthorityOf(target);
}

Expected<HttpRunResult> RunHttpLoads(const HttpTarget& target, const std::vector<HttpLoad>& loads,
                                     const LoadWindow& window) {
  if (loads.empty()) return Status::InvalidArgument("there is no load");
  for (const HttpLoad& load : loads) PENSTOCK_RETURN_IF_ERROR(CheckLoad(load));
  Run run;
  run.target = target;
  PENSTOCK_ASSIGN_OR_RETURN(run.endpoint, ResolveTarget(target, &run.context));
  PENSTOCK_ASSIGN_OR_RETURN(run.tls, MakeTlsContext(target));
  PENSTOCK_RETURN_IF_ERROR(CheckReachable(target, run.endpoint, &run.context, run.tls.get()));
  run.window = window;
  run.begin = Clock::now() + Seconds(window.warmup_s);
  run.end = run.begin + Seconds(window.duration_s);
  std::vector<std::unique_ptr<Stream>> streams;
  for (const HttpLoad& load : loads) streams.push_back(std::make_unique<Stream>(&run, load));
  Conductor conductor(&run, &streams);
  conductor.Start();
  for (const auto& stream : streams) stream->Start();
  run.context.run();
  conductor.EndNow();

  HttpRunResult result;
  const auto over = window.requests_max == 0 ? run.end : std::min(run.end, run.last_answer);
  result.seconds = std::max(1e-9, Ms(over - run.begin) / 1000);
  result.client_cpu_s = conductor.client_cpu_s();
  result.server_cpu_s = conductor.server_cpu_s();
  for (const auto& stream : streams) {
    stream->AbandonAll();
    result.loads.push_back(stream->TakeResult());
    result.loads.back().seconds = result.seconds;
  }
  return result;
}

namespace {

// One request on a connection of its own. `head`: the request line and headers of its own.
Expected<HttpAnswer> CallOnce(const HttpTarget& target, const std::string& head,
                              const std::string& body) {
  asio::io_context context{1};
  PENSTOCK_ASSIGN_OR_RETURN(const tcp::endpoint endpoint, ResolveTarget(target, &context));
  tcp::socket socket(context);
  error_code ec;
  socket.connect(endpoint, ec);
  std::string request =
      head + fmt::format("Host: {}\r\nConnection: close\r\n", AuthorityOf(target));
  if (!target.api_key.empty()) {
    request += fmt::format("Authorization: Bearer {}\r\n", target.api_key);
  }
  request += "\r\n" + body;
  if (!ec) asio::write(socket, asio::buffer(request), ec);
  boost::beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(HttpLink::kAnswerBytesMax);
  if (!ec) http::read(socket, buffer, parser, ec);
  if (ec) return Status(StatusCode::kUnavailable, UrlOf(target) + ": " + ec.message());
  return HttpAnswer{static_cast<int>(parser.get().result_int()), std::move(parser.get().body())};
}

}  // namespace

Expected<std::string> HttpGet(const HttpTarget& target, const std::string& path) {
  PENSTOCK_ASSIGN_OR_RETURN(HttpAnswer answer,
                            CallOnce(target, fmt::format("GET {} HTTP/1.1\r\n", path), ""));
  if (answer.status == 200) return std::move(answer.body);
  return Status(StatusCode::kUnavailable,
                fmt::format("GET {}{}: status {}", UrlOf(target), path, answer.status));
}

Expected<HttpAnswer> HttpPostJson(const HttpTarget& target, const std::string& path,
                                  const std::string& body) {
  return CallOnce(target,
                  fmt::format("POST {} HTTP/1.1\r\nContent-Type: application/json\r\n"
                              "Content-Length: {}\r\n",
                              path, body.size()),
                  body);
}

}  // namespace penstock
