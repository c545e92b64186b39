#include "client/http_post.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>

#include "net/http_client.h"

namespace penstock::client {
namespace {

// A date instead of seconds reads as 0: the client's own back-off does.
int RetryAfterOf(const net::HttpHead& head) {
  const auto found = head.headers.find("retry-after");
  if (found == head.headers.end()) return 0;
  const long seconds = std::strtol(found->second.c_str(), nullptr, 10);
  return static_cast<int>(std::clamp<long>(seconds, 0, HttpPost::kRetryAfterMaxS));
}

}  // namespace

struct HttpPost::Impl {
  std::unique_ptr<net::HttpClient> Take() {
    const std::lock_guard lock(mutex);
    if (idle.empty()) {
      return std::make_unique<net::HttpClient>(
          net::HttpClientOptions{options.connect_timeout_ms, options.ca_file, options.insecure});
    }
    auto client = std::move(idle.back());
    idle.pop_back();
    return client;
  }
  void GiveBack(std::unique_ptr<net::HttpClient> client) {
    const std::lock_guard lock(mutex);
    idle.push_back(std::move(client));
  }

  HttpPostOptions options;
  std::atomic<bool> aborted{false};
  std::mutex mutex;
  // With their connections; as many as calls were in progress at once.
  std::vector<std::unique_ptr<net::HttpClient>> idle;
};

HttpPost::HttpPost(HttpPostOptions options) : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
}

HttpPost::~HttpPost() = default;

void HttpPost::Abort() { impl_->aborted = true; }
void HttpPost::Continue() { impl_->aborted = false; }

Expected<PostAnswer> HttpPost::Post(const std::string& url, const std::vector<std::string>& headers,
                                    const std::string& body) {
  return Exchange(url, headers, &body, nullptr);
}

Expected<PostAnswer> HttpPost::PostStream(const std::string& url,
                                          const std::vector<std::string>& headers,
                                          const std::string& body,
                                          std::function<void(std::string_view)> on_data) {
  return Exchange(url, headers, &body, std::move(on_data));
}

Expected<PostAnswer> HttpPost::Get(const std::string& url,
                                   const std::vector<std::string>& headers) {
  return Exchange(url, headers, nullptr, nullptr);
}

Expected<PostAnswer> HttpPost::Exchange(const std::string& url,
                                        const std::vector<std::string>& headers,
                                        const std::string* body,
                                        std::function<void(std::string_view)> on_data) {
  net::HttpRequest request;
  // A person may leave the scheme out.
  const bool has_scheme = url.find("://") != std::string::npos;
  PENSTOCK_ASSIGN_OR_RETURN(request.url, net::ParseUrl(has_scheme ? url : "http://" + url));
  request.method = body != nullptr ? "POST" : "GET";
  request.body = body;
  request.headers.emplace_back("Content-Type", "application/json");
  for (const std::string& header : headers) {
    const size_t colon = std::min(header.find(':'), header.size());
    const size_t begin = std::min(header.find_first_not_of(' ', colon + 1), header.size());
    request.headers.emplace_back(header.substr(0, colon), header.substr(begin));
  }
  const HttpPostOptions& options = impl_->options;
  if (on_data) {
    request.stall_bytes = 1;
    request.stall_s = std::max(1, options.timeout_ms / 1000);
  } else {
    request.timeout_ms = options.timeout_ms;
  }
  request.cancelled = [this] { return impl_->aborted.load(); };
  PostAnswer answer;
  bool too_large = false;
  const net::HttpSink sink = {[&](const net::HttpHead& head) {
                                answer.status = head.status;
                                answer.retry_after_s = RetryAfterOf(head);
                                return Status::Ok();
                              },
                              [&](std::string_view data) {
                                if (on_data && answer.status == 200) {
                                  on_data(data);
                                  return Status::Ok();
                                }
                                too_large = answer.body.size() + data.size() > kAnswerBytesMax;
                                if (too_large) return Status(StatusCode::kPayloadTooLarge, "");
                                answer.body += data;
                                return Status::Ok();
                              }};
  auto client = impl_->Take();
  const net::HttpResult result = client->Exchange(request, sink);
  impl_->GiveBack(std::move(client));
  if (result.ok()) return answer;
  if (too_large) {
    return Status(StatusCode::kPayloadTooLarge, url + ": the answer is larger than " +
                                                    std::to_string(kAnswerBytesMax) + " bytes");
  }
  if (result.failure == net::HttpFailure::kCancelled) {
    return Status(StatusCode::kCancelled, "stopped");
  }
  return Status(result.may_pass() ? StatusCode::kUnavailable : StatusCode::kInvalidArgument,
                url + ": " + result.status.message());
}

}  // namespace penstock::client
