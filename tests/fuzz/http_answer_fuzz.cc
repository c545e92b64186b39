// What a server answers to a request: a byte for the request, one for the size of the pieces that
// come, the rest is the answer, after which the connection ends. However it is cut, the same is
// read; a part of an answer is never taken for the whole; where it redirects to is a URL.
#include <boost/asio/post.hpp>
#include <boost/beast/core/bind_handler.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "fuzz_util.h"
#include "net/stream_exchange.h"

namespace penstock::net {
namespace {

namespace asio = boost::asio;

// Gives `answer` out in pieces of at most `piece` bytes, and takes what is written.
class MemoryStream {
 public:
  using executor_type = asio::io_context::executor_type;

  MemoryStream(asio::io_context* context, std::string_view answer, size_t piece)
      : context_(*context), answer_(answer), piece_(piece) {}

  executor_type get_executor() { return context_.get_executor(); }
  size_t bytes_read() const { return at_; }

  template <typename Buffers, typename Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    const size_t got = asio::buffer_copy(buffers, asio::buffer(answer_.substr(at_)), piece_);
    at_ += got;
    const bool ended = got == 0 && asio::buffer_size(buffers) > 0;
    Post(ended ? ErrorCode(asio::error::eof) : ErrorCode(), got, std::forward<Handler>(handler));
  }
  template <typename Buffers, typename Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    Post({}, asio::buffer_size(buffers), std::forward<Handler>(handler));
  }

 private:
  template <typename Handler>
  void Post(const ErrorCode& error, size_t bytes, Handler&& handler) {
    asio::post(context_,
               boost::beast::bind_front_handler(std::forward<Handler>(handler), error, bytes));
  }

  asio::io_context& context_;
  const std::string_view answer_;
  const size_t piece_;
  size_t at_ = 0;
};

struct Reading {
  HttpFailure failure = HttpFailure::kNone;
  HttpHead head;
  std::string body;
  int heads = 0;
  bool keeps = false;
  size_t bytes_read = 0;
};

Reading Read(const HttpRequest& request, std::string_view answer, size_t piece) {
  Operations operations([] {});
  MemoryStream stream(&operations.context(), answer, piece);
  boost::beast::flat_buffer buffer;
  Limits limits(request);
  StreamExchange<MemoryStream>::Head head;
  head.version(11);
  head.method_string(request.method);
  head.target(request.url.target);
  Reading reading;
  const HttpSink sink = {[&](const HttpHead& got) {
                           reading.head = got;
                           ++reading.heads;
                           return Status::Ok();
                         },
                         [&](std::string_view data) {
                           PENSTOCK_CHECK(reading.heads == 1 && !data.empty());
                           reading.body += data;
                           return Status::Ok();
                         }};
  ExchangeState state;
  const HttpResult result =
      StreamExchange(&operations, &stream, &buffer, &limits).Run(&head, request, sink, &state);
  reading.failure = result.failure;
  reading.keeps = state.keeps;
  reading.bytes_read = stream.bytes_read();
  PENSTOCK_CHECK(result.ok() || result.failure == HttpFailure::kBroken);
  PENSTOCK_CHECK(result.ok() == result.status.message().empty());
  PENSTOCK_CHECK(!result.ok() || (reading.heads == 1 && state.began_answer));
  PENSTOCK_CHECK(!state.keeps || result.ok());
  return reading;
}

void CheckHead(const Reading& reading, size_t bytes) {
  PENSTOCK_CHECK(reading.heads <= 1 && reading.body.size() <= bytes);
  if (reading.heads == 0) return;
  PENSTOCK_CHECK(reading.head.status / 100 != 1 && reading.head.status < 1000);
  size_t head_bytes = 0;
  for (const auto& [name, value] : reading.head.headers) {
    for (const char c : name) PENSTOCK_CHECK(c > ' ' && c != ':' && !(c >= 'A' && c <= 'Z'));
    PENSTOCK_CHECK(value.find_first_of("\r\n") == std::string::npos);
    head_bytes += name.size() + value.size();
  }
  PENSTOCK_CHECK(head_bytes <= HttpClient::kHeadBytesMax);
}

void CheckLocation(const Url& base, const HttpHead& head) {
  const auto location = head.headers.find("location");
  if (location == head.headers.end()) return;
  const auto url = Resolve(base, location->second);
  if (!url.ok()) return;
  PENSTOCK_CHECK(!url->host.empty() && url->target.starts_with('/'));
  for (const std::string& part : {url->authority(), url->target}) {
    for (const char c : part) PENSTOCK_CHECK(c > ' ' && c != 0x7F);
  }
  const auto again = ParseUrl(url->ToString());
  PENSTOCK_CHECK(again.ok() && again->SameOrigin(*url) && again->target == url->target);
}

// How much of a body has come before its break is seen depends on the pieces.
bool Same(const Reading& a, const Reading& b) {
  const bool same_body = a.failure == HttpFailure::kNone
                             ? a.body == b.body
                             : a.body.starts_with(b.body) || b.body.starts_with(a.body);
  return a.failure == b.failure && a.heads == b.heads && a.head.status == b.head.status &&
         a.head.headers == b.head.headers && same_body;
}

}  // namespace
}  // namespace penstock::net

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;  // NOLINT
  fuzz::Input input(data, size);
  const std::string body = "{}";
  net::HttpRequest request;
  request.url = *net::ParseUrl("https://hub.example/a/b?c");
  const uint8_t how = input.Byte();
  if (how % 4 == 1) request.method = "HEAD";
  if (how % 4 == 2) {
    request.method = "POST";
    request.body = &body;
  }
  const size_t piece = 1 + input.Byte() % 16;
  const std::string_view answer = input.Rest();
  const auto whole = net::Read(request, answer, answer.size() + 1);
  net::CheckHead(whole, answer.size());
  net::CheckLocation(request.url, whole.head);
  if (request.method == "HEAD") PENSTOCK_CHECK(whole.body.empty());
  PENSTOCK_CHECK(net::Same(whole, net::Read(request, answer, piece)));
  if (answer.size() > 512) return 0;  // byte by byte it takes long
  const auto slow = net::Read(request, answer, 1);
  PENSTOCK_CHECK(net::Same(whole, slow));
  if (!slow.keeps) return 0;
  // It says where it ends, so that without its last bytes it is none.
  for (const size_t cut : {size_t{1}, piece, slow.bytes_read / 2}) {
    if (cut == 0 || cut > slow.bytes_read) continue;
    const auto part = net::Read(request, answer.substr(0, slow.bytes_read - cut), piece);
    PENSTOCK_CHECK(part.failure == net::HttpFailure::kBroken);
  }
  return 0;
}

PENSTOCK_FUZZ_MUTATE_WITH(penstock::fuzz::MutateText)
