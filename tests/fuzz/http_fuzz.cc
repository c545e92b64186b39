// Bytes into a Connection over a pair of sockets. The first byte says in pieces of how many bytes
// they are sent; the rest is what the client sends before it closes its side.
//
// The handler must see what http_reference.h reads, request for request: an extra one would be one
// that a proxy in front never saw. It must see the same however the bytes are cut, and the
// connection must end by itself. What begins as HTTP/2 is left to http2_fuzz.cc.
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "fuzz_util.h"
#include "http/connection.h"
#include "http2/http2_session.h"
#include "http_reference.h"
#include "log/log.h"

namespace penstock {
namespace {

using boost::asio::ip::tcp;

constexpr size_t kInputBytesMax =
    6000;  // answers to all requests of an input fit the socket's buffer
constexpr fuzz::ReferenceLimits kLimits = {16 << 10, 1 << 12};

class Recorder final : public http::HttpHandler {
 public:
  std::optional<http::HttpResponse> OnHeader(http::HttpRequest*) override { return std::nullopt; }
  void OnRequest(std::shared_ptr<const http::HttpRequest> request, std::string body,
                 http::Responder respond) override {
    seen.push_back({request->method, request->target, std::move(body)});
    respond.Send(http::HttpResponse{.body = "ok"});
  }
  http::HttpResponse OnError(const http::HttpRequest&, int status,
                             const std::string& message) override {
    PENSTOCK_CHECK(status >= 400 && !message.empty());
    ++errors;
    return http::HttpResponse{.status = status, .body = "no"};
  }
  void OnDone(const http::HttpRequest&, int, size_t, int64_t) override { ++done; }
  void OnStreams(int) override {}
  void OnStreamDropped() override {}
  void OnConnections(int change) override { connections += change; }
  void OnConnectionRefused() override {}
  void OnBytes(size_t, size_t) override {}

  struct Seen {
    std::string method, target, body;
    bool operator==(const Seen&) const = default;
  };
  std::vector<Seen> seen;
  size_t errors = 0, done = 0;
  int connections = 0;
};

// A connection on this thread, with the client's end of its socket.
class Conversation {
 public:
  explicit Conversation(Recorder* recorder) : recorder_(recorder) {
    options_.header_bytes_max = static_cast<int32_t>(kLimits.header_bytes_max);
    options_.body_bytes_max = static_cast<int64_t>(kLimits.body_bytes_max);
    thread_->handler = recorder;
    thread_->options = &options_;
    thread_->open_count = &open_;
    thread_->answers.Listen();
    int ends[2];
    PENSTOCK_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    client_ = ends[1];
    tcp::socket socket(thread_->context);
    socket.assign(tcp::v4(), ends[0]);
    PENSTOCK_CHECK(open_.TryAdd(1, 1));
    http::MakeConnection(std::move(socket), thread_)->Start();
  }
  ~Conversation() {
    close(client_);
    thread_->answers.Close();
  }

  // Sends in pieces and closes the sending side; returns the answers.
  std::string Run(std::string_view bytes, size_t piece) {
    while (!bytes.empty()) {
      const ssize_t sent = send(client_, bytes.data(), std::min(piece, bytes.size()), MSG_NOSIGNAL);
      if (sent <= 0) break;  // it has closed, or takes no more
      bytes.remove_prefix(static_cast<size_t>(sent));
      thread_->context.poll();
    }
    shutdown(client_, SHUT_WR);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (recorder_->connections > 0) {
      PENSTOCK_CHECK(std::chrono::steady_clock::now() < end);  // it must end by itself
      thread_->context.run_one_for(std::chrono::seconds(5));
      Read();
    }
    Read();
    PENSTOCK_CHECK(thread_->connections.empty());
    return std::move(answer_);
  }

 private:
  void Read() {
    char block[4096];
    for (ssize_t n = 0; (n = recv(client_, block, sizeof(block), 0)) > 0;) {
      answer_.append(block, static_cast<size_t>(n));
    }
  }

  Recorder* const recorder_;
  http::ServerOptions options_;
  http::OpenCount open_;
  std::shared_ptr<http::IoThread> thread_ = std::make_shared<http::IoThread>();
  int client_ = -1;
  std::string answer_;
};

size_t Count(std::string_view text, std::string_view what) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string_view::npos; ++at) ++count;
  return count;
}

std::vector<Recorder::Seen> Talk(std::string_view bytes, size_t piece) {
  Recorder recorder;
  const std::string answer = Conversation(&recorder).Run(bytes, piece);
  PENSTOCK_CHECK(answer.empty() || answer.starts_with("HTTP/1.1 "));
  PENSTOCK_CHECK(recorder.errors <= 1);  // after an error nothing is read
  PENSTOCK_CHECK(recorder.done == recorder.seen.size() + recorder.errors);
  PENSTOCK_CHECK(Count(answer, "HTTP/1.1 200 OK\r\n") == recorder.seen.size());
  return std::move(recorder.seen);
}

// Absolute targets are handed on as paths.
bool SameTarget(const std::string& seen, const std::string& sent) {
  return seen == sent || sent.find("://") != std::string::npos;
}

void Compare(const std::vector<Recorder::Seen>& seen,
             const std::vector<fuzz::ReferenceRequest>& sent) {
  if (seen.size() > sent.size()) {
    const Recorder::Seen& more = seen[sent.size()];
    std::fprintf(stderr, "one more than was sent: %s %s\n", more.method.c_str(),
                 more.target.c_str());
  }
  PENSTOCK_CHECK(seen.size() <= sent.size());
  for (size_t i = 0; i < seen.size(); ++i) {
    PENSTOCK_CHECK(seen[i].method == sent[i].method && seen[i].body == sent[i].body);
    PENSTOCK_CHECK(SameTarget(seen[i].target, sent[i].target));
  }
  for (size_t i = 0; i < sent.size() && sent[i].plain; ++i) PENSTOCK_CHECK(i < seen.size());
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  static const bool quiet = [] {
    InitLog({.level = LogLevel::kOff});
    return true;
  }();
  (void)quiet;
  if (size > kInputBytesMax) return 0;
  fuzz::Input input(data, size);
  const size_t piece = 1 + input.Byte();
  const std::string_view bytes = input.Rest();
  if (bytes.starts_with(http2::kHttp2Preface)) return 0;
  const auto seen = Talk(bytes, kInputBytesMax);
  Compare(seen, fuzz::ReadRequests(bytes, kLimits));
  PENSTOCK_CHECK(Talk(bytes, piece) == seen);
  return 0;
}

PENSTOCK_FUZZ_MUTATE_WITH(penstock::fuzz::MutateText)
