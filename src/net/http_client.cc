#include "net/http_client.h"

#include <openssl/ssl.h>

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <chrono>
#include <optional>

#include "log/exception_status.h"
#include "net/connection.h"
#include "net/limits.h"
#include "net/proxy.h"
#include "net/system_certificates.h"

namespace penstock::net {
namespace {

// A redirect's text is not read further.
constexpr size_t kRedirectBytesMax = 64 << 10;

// A line break in one would begin another header.
Status CheckHeaders(const HttpRequest& request) {
  for (const auto& [name, value] : request.headers) {
    const bool is_name = !name.empty() && std::ranges::all_of(name, [](unsigned char c) {
      return c > ' ' && c < 0x7F && c != ':';
    });
    const bool is_value = std::ranges::none_of(
        value, [](unsigned char c) { return (c < ' ' && c != '\t') || c == 0x7F; });
    // The value may be a key, and is not told.
    if (!is_name || !is_value) {
      return Status::InvalidArgument("the header " + (is_name ? name : std::string("to send")) +
                                     " has a control character");
    }
  }
  return Status::Ok();
}

bool IsRedirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

}  // namespace

struct HttpClient::Impl {
  explicit Impl(HttpClientOptions given) : options(std::move(given)) {}

  // Made with the first https URL.
  Status MakeTls() {
    if (tls) return Status::Ok();
    tls.emplace(boost::asio::ssl::context::tls_client);
    SSL_CTX_set_min_proto_version(tls->native_handle(), TLS1_2_VERSION);
    ErrorCode error;
    if (options.ca_file.empty()) {
      tls->set_default_verify_paths(error);
      const std::string more = SystemCertificateFile();
      if (!error && !more.empty()) tls->load_verify_file(more, error);
    } else {
      tls->load_verify_file(options.ca_file, error);
    }
    if (!error) return Status::Ok();
    tls.reset();
    return Status::InvalidArgument("certificates of authorities" +
                                   (options.ca_file.empty() ? "" : " in " + options.ca_file) +
                                   " cannot be read: " + error.message());
  }

  // One that may be used again, if there is one; those that were closed go.
  std::unique_ptr<Connection> TakeIdle(const Url& url, const std::optional<Url>& proxy) {
    std::erase_if(idle, [](const auto& one) { return !one->IsIdle(); });
    const auto found =
        std::ranges::find_if(idle, [&](const auto& one) { return one->Serves(url, proxy); });
    if (found == idle.end()) return nullptr;
    auto connection = std::move(*found);
    idle.erase(found);
    return connection;
  }

  HttpResult Run(const HttpRequest& request, const HttpSink& sink) {
    if (Status headers = CheckHeaders(request); !headers.ok()) {
      return {HttpFailure::kRefused, std::move(headers)};
    }
    const auto proxy = ProxyFor(request.url);
    if (!proxy.ok()) return {HttpFailure::kRefused, proxy.status()};
    if (request.url.tls) {
      if (Status made = MakeTls(); !made.ok()) return {HttpFailure::kRefused, std::move(made)};
    }
    Limits limits(request);
    if (auto kept = TakeIdle(request.url, *proxy)) {
      ExchangeState state;
      HttpResult result = kept->Run(request, sink, &limits, &state);
      // A server may close a connection that nothing came on for long just when a request is sent.
      const bool was_closed = result.failure == HttpFailure::kBroken && !state.began_answer;
      if (state.keeps) idle.push_back(std::move(kept));
      if (!was_closed) return result;
    }
    auto connection = std::make_unique<Connection>(request.url, *proxy, tls ? &*tls : nullptr);
    limits.SetStepEnd(Limits::Clock::now() + std::chrono::milliseconds(options.connect_timeout_ms));
    HttpResult result = connection->Open(&limits, options.insecure);
    if (!result.ok()) return result;
    limits.SetStepEnd(Limits::Clock::time_point::max());
    ExchangeState state;
    result = connection->Run(request, sink, &limits, &state);
    if (state.keeps) idle.push_back(std::move(connection));
    return result;
  }

  const HttpClientOptions options;
  std::optional<boost::asio::ssl::context> tls;
  std::vector<std::unique_ptr<Connection>> idle;
};

HttpClient::HttpClient(HttpClientOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}
HttpClient::~HttpClient() = default;

HttpResult HttpClient::Exchange(const HttpRequest& request, const HttpSink& sink) {
  try {
    return impl_->Run(request, sink);
  } catch (...) {
    return {HttpFailure::kRefused, ExceptionStatus()};
  }
}

HttpResult HttpClient::Follow(HttpRequest request, size_t redirects, const HttpSink& sink) {
  const Url first = request.url;
  for (size_t hop = 0;; ++hop) {
    std::string location;
    size_t redirect_bytes = 0;
    const HttpSink seen = {[&](const HttpHead& head) {
                             const auto found = head.headers.find("location");
                             if (IsRedirect(head.status) && found != head.headers.end())
                               location = found->second;
                             return location.empty() && sink.on_head ? sink.on_head(head)
                                                                     : Status::Ok();
                           },
                           [&](std::string_view piece) {
                             if (location.empty()) return sink.on_body(piece);
                             redirect_bytes += piece.size();
                             if (redirect_bytes <= kRedirectBytesMax) return Status::Ok();
                             return Status(StatusCode::kPayloadTooLarge, "the text of a redirect");
                           }};
    HttpResult result = Exchange(request, seen);
    if (location.empty()) return result;
    if (!result.ok() && result.failure != HttpFailure::kSink) return result;
    if (hop == redirects) {
      return Failed(HttpFailure::kRefused, first,
                    "more than " + std::to_string(redirects) + " redirects");
    }
    auto next = Resolve(request.url, location);
    if (!next.ok()) return {HttpFailure::kRefused, next.status()};
    if (request.url.tls && !next->tls) {
      return Failed(HttpFailure::kRefused, first, "it redirects from https to http");
    }
    if (next->user.empty() && next->SameOrigin(first)) next->user = first.user;
    request.url = *std::move(next);
    if (!request.url.SameOrigin(first)) {
      std::erase_if(request.headers, [](const auto& header) {
        return boost::beast::iequals(header.first, "authorization") ||
               boost::beast::iequals(header.first, "cookie");
      });
    }
  }
}

}  // namespace penstock::net
