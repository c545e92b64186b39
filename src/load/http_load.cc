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
#include <random>

#include "load/clock_units.h"
#include "load/http_link.h"
#include "load/http_request.h"
#include "load/load_run.h"

namespace penstock::load {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPauseAfterLoss{20};

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

class Stream {
 public:
  Stream(LoadRun* run, const HttpLoad& load)
      : run_(run),
        load_(load),
        random_(load.seed),
        clients_(
            run, {load.rate, load.burst, load.concurrency, kPauseAfterLoss, load.next_arrival_s},
            &random_, [this] { return std::make_unique<Client>(&run_->context, this); },
            [this](Client* client, Clock::time_point intended) { Issue(client, intended); }) {
    result_.name = load.name;
  }

  void Start() { clients_.Begin(); }
  void StopArrivals() { clients_.Stop(); }

  void OnWritten() { ++result_.sent; }
  void OnDone(Client* client, Outcome outcome, const HttpLink::Response* response);
  // At the end of the drain.
  void AbandonAll() {
    for (const auto& client : clients_.all()) {
      if (!client->busy()) continue;
      ++result_.no_answer;
      if (client->request().written) ++result_.lost_after_sent;
      if (client->request().measured) ++result_.errors[LoadResult::kNoAnswer];
      client->Abandon();
    }
  }
  LoadResult TakeResult() {
    result_.connections = clients_.all().size();
    result_.not_sent = clients_.not_sent();
    return std::move(result_);
  }

  const HttpLoad& load() const { return load_; }
  LoadRun* run() { return run_; }
  double Uniform() { return std::uniform_real_distribution<double>(0, 1)(random_); }

 private:
  void Issue(Client* client, Clock::time_point intended);
  void CountAnswer(const Request& request, const HttpLink::Response& response);

  LoadRun* const run_;
  const HttpLoad load_;
  std::mt19937_64 random_;
  ClientPool<Client> clients_;
  LoadResult result_;
};

void Client::Start(Request request) {
  request_ = std::move(request);
  busy_ = true;
  if (link_ != nullptr) return Write();
  LoadRun* const run = stream_->run();
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
  Request request;
  request.with_timeout = load_.timeout_ms > 0 && Uniform() < load_.timeout_share;
  request.leaves = load_.leave_share > 0 && Uniform() < load_.leave_share;
  request.wire = MakeRequest(run_->target, load_, request.with_timeout);
  request.intended = intended;
  request.measured = run_->InWindow(intended);
  client->Start(std::move(request));
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
  clients_.Free(client, outcome == Outcome::kLost);
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
  LoadRun run;
  PENSTOCK_RETURN_IF_ERROR(run.Open(target, window));
  std::vector<std::unique_ptr<Stream>> streams;
  for (const HttpLoad& load : loads) streams.push_back(std::make_unique<Stream>(&run, load));
  run.Drive(
      [&] {
        for (const auto& stream : streams) stream->Start();
      },
      [&] {
        for (const auto& stream : streams) stream->StopArrivals();
      });

  HttpRunResult result;
  result.seconds = run.seconds();
  result.client_cpu_s = run.client_cpu_s();
  result.server_cpu_s = run.server_cpu_s();
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

}  // namespace penstock::load
