// ServerClient: asks one inference server by JSON, and retries where the network fails or the
// server is busy. Any thread may call; each call blocks until it has its answer.
//
// Retries transient failures: 408, 429, 502, 503, 504 and lost connections, after Retry-After or a
// back-off that doubles with each attempt and is spread by chance, so that clients do not come back
// all at once. A server can make a client wait kRetryAfterMaxS for each attempt, not longer; the
// waits are counted. Requests must be idempotent.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "client/http_post.h"

namespace penstock::client {

struct ServerClientOptions {
  std::string url;  // "http://host:port", with or without "/v1"
  std::string api_key;
  HttpPostOptions http;
  // A server that has not answered once is given up after this.
  int first_answer_ms = 5'000;
  bool interactive = false;  // a person waits; else requests are bulk work
  int attempts_max = 10;
  int backoff_ms = 250;  // before the second attempt; doubles, at most kBackoffMsMax
};

class ServerClient {
 public:
  static constexpr int kBackoffMsMax = 30'000;

  explicit ServerClient(ServerClientOptions options);

  // Posts to `path` ("/v1/embeddings"), with the key and `more` headers. Any permanent
  // HTTP status is an answer, and so is the last transient one. kCancelled: Stop was called.
  Expected<PostAnswer> Post(const std::string& path, const std::string& body,
                            const std::vector<std::string>& more = {});
  // The same without retries, also after Stop.
  Expected<PostAnswer> PostOnce(const std::string& path, const std::string& body,
                                const std::vector<std::string>& more = {});

  // As PostOnce; an answer with status 200 goes to `on_data` as it comes (HttpPost::PostStream).
  Expected<PostAnswer> PostStream(const std::string& path, const std::string& body,
                                  std::function<void(std::string_view)> on_data);

  // GET, without retries.
  Expected<PostAnswer> GetOnce(const std::string& path);

  // Calls under way give up at their next retry (kCancelled), later ones at once, but for PostOnce.
  void Stop();
  bool stopped();
  // As Stop, and exchanges under way end at once, until Continue.
  void Abort();
  void Continue() { http_.Continue(); }

  int64_t retries() const { return retries_.load(std::memory_order_relaxed); }
  // Seconds waited before retries, of all calls together.
  double waited_s() const { return static_cast<double>(waited_ms_.load()) / 1000; }

 private:
  std::vector<std::string> Headers(const std::vector<std::string>& more) const;
  // How much longer to wait for a server that has never answered; 0: no longer. Logs the wait,
  // once.
  int PatienceMs(const Status& failure);
  bool Sleep(int ms);  // false: stopped

  const ServerClientOptions options_;
  const std::string base_;  // without "/v1" and '/' at its end
  HttpPost http_;
  std::atomic<int64_t> retries_{0};
  std::atomic<int64_t> waited_ms_{0};
  std::mutex mutex_;
  std::condition_variable stop_;
  bool stopped_ = false;  // guarded by mutex_
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::atomic<bool> answered_{false};  // with any HTTP status
  std::atomic<bool> told_{false};      // PatienceMs has logged the wait
};

// The Status of an answer that is an error: the message and the field of the error, of any
// ErrorBody (serving/error_body.h), or the body's beginning.
Status StatusOfAnswer(const PostAnswer& answer);
// An answer that breaks the protocol.
Status Garbled(const std::string& what);
bool IsWorthRetrying(int http_status);
// Before attempt `attempt` (2, 3, ...); `chance` is from 0 to 1.
int BackoffMs(const ServerClientOptions& options, int attempt, int retry_after_s, double chance);

}  // namespace penstock::client
