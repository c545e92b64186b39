#include "client/http_post.h"

#include <strings.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>

#include "common/curl_library.h"
#include "common/transient_error.h"

namespace penstock::client {
namespace {

struct CurlDelete {
  void operator()(CURL* curl) const { Curl().easy_cleanup(curl); }
};
using CurlPtr = std::unique_ptr<CURL, CurlDelete>;

struct SlistDelete {
  void operator()(curl_slist* list) const { Curl().slist_free_all(list); }
};

// Where the body of an answer goes.
struct Sink {
  CURL* curl = nullptr;
  PostAnswer* answer = nullptr;
  std::function<void(std::string_view)> on_data;
};

size_t OnBody(char* data, size_t size, size_t count, void* to) {
  const auto* const sink = static_cast<const Sink*>(to);
  PostAnswer* const answer = sink->answer;
  long status = 0;
  if (sink->on_data) Curl().easy_getinfo(sink->curl, CURLINFO_RESPONSE_CODE, &status);
  if (status == 200) {
    sink->on_data(std::string_view(data, size * count));
    return size * count;
  }
  if (answer->body.size() + size * count > HttpPost::kAnswerBytesMax) return 0;
  answer->body.append(data, size * count);
  return size * count;
}

size_t OnHeader(char* data, size_t size, size_t count, void* to) {
  constexpr std::string_view kName = "retry-after:";
  const std::string line(data, size * count);
  if (line.size() > kName.size() && strncasecmp(line.c_str(), kName.data(), kName.size()) == 0) {
    // A date instead of seconds reads as 0: the client's own back-off does.
    const long seconds = std::strtol(line.c_str() + kName.size(), nullptr, 10);
    static_cast<PostAnswer*>(to)->retry_after_s =
        static_cast<int>(std::min<long>(std::max<long>(seconds, 0), HttpPost::kRetryAfterMaxS));
  }
  return size * count;
}

// Called about once a second, and with every piece of the exchange.
int OnProgress(void* aborted, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<std::atomic<bool>*>(aborted)->load() ? 1 : 0;
}

}  // namespace

struct HttpPost::Impl {
  CurlPtr Take() {
    const std::lock_guard lock(mutex);
    if (idle.empty()) return CurlPtr(Curl().easy_init());
    CurlPtr curl = std::move(idle.back());
    idle.pop_back();
    return curl;
  }
  void GiveBack(CurlPtr curl) {
    const std::lock_guard lock(mutex);
    idle.push_back(std::move(curl));
  }

  HttpPostOptions options;
  std::atomic<bool> aborted{false};
  std::mutex mutex;
  std::vector<CurlPtr> idle;  // with their connections; as many as calls were in progress at once
};

HttpPost::HttpPost(HttpPostOptions options) : impl_(std::make_unique<Impl>()) {
  if (const char* const file = std::getenv("SSL_CERT_FILE");
      options.ca_file.empty() && file != nullptr) {
    options.ca_file = file;
  }
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
  PENSTOCK_RETURN_IF_ERROR(LoadCurl());
  CurlPtr handle = impl_->Take();
  if (handle == nullptr) return Status(StatusCode::kInternal, "libcurl gives no handle");
  CURL* curl = handle.get();
  const HttpPostOptions& options = impl_->options;
  std::unique_ptr<curl_slist, SlistDelete> list;
  // Without the second, a large body waits a second for a "100 Continue" that may not come.
  list.reset(Curl().slist_append(nullptr, "Content-Type: application/json"));
  Curl().slist_append(list.get(), "Expect:");
  for (const std::string& header : headers) Curl().slist_append(list.get(), header.c_str());
  PostAnswer answer;
  char error[CURL_ERROR_SIZE] = "";
  Curl().easy_reset(curl);  // keeps connections
  Curl().easy_setopt(curl, CURLOPT_URL, url.c_str());
  Curl().easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  Curl().easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  Curl().easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
  Curl().easy_setopt(curl, CURLOPT_USERAGENT, "penstock/" PENSTOCK_VERSION);
  Curl().easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS,
                     static_cast<long>(options.connect_timeout_ms));
  const Sink sink{curl, &answer, std::move(on_data)};
  if (sink.on_data) {
    Curl().easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    Curl().easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, std::max(1L, options.timeout_ms / 1000L));
  } else {
    Curl().easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(options.timeout_ms));
  }
  if (!options.ca_file.empty()) Curl().easy_setopt(curl, CURLOPT_CAINFO, options.ca_file.c_str());
  if (options.insecure) {
    Curl().easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L);
    Curl().easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
  }
  Curl().easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  Curl().easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, OnProgress);
  Curl().easy_setopt(curl, CURLOPT_XFERINFODATA, &impl_->aborted);
  Curl().easy_setopt(curl, CURLOPT_HTTPHEADER, list.get());
  if (body != nullptr) {
    Curl().easy_setopt(curl, CURLOPT_POSTFIELDS, body->c_str());
    Curl().easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body->size()));
  }
  Curl().easy_setopt(curl, CURLOPT_WRITEFUNCTION, OnBody);
  Curl().easy_setopt(curl, CURLOPT_WRITEDATA, &sink);
  Curl().easy_setopt(curl, CURLOPT_HEADERFUNCTION, OnHeader);
  Curl().easy_setopt(curl, CURLOPT_HEADERDATA, &answer);
  const CURLcode code = Curl().easy_perform(curl);
  long status = 0;
  Curl().easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  Curl().easy_setopt(curl, CURLOPT_ERRORBUFFER, nullptr);
  impl_->GiveBack(std::move(handle));
  if (code == CURLE_OK) {
    answer.status = static_cast<int>(status);
    return answer;
  }
  const std::string reason = url + ": " + (error[0] != '\0' ? error : Curl().easy_strerror(code));
  if (code == CURLE_WRITE_ERROR) {
    return Status(StatusCode::kPayloadTooLarge, url + ": the answer is larger than " +
                                                    std::to_string(kAnswerBytesMax) + " bytes");
  }
  if (code == CURLE_ABORTED_BY_CALLBACK) return Status(StatusCode::kCancelled, "stopped");
  return Status(MayPass(code) ? StatusCode::kUnavailable : StatusCode::kInvalidArgument, reason);
}

}  // namespace penstock::client
