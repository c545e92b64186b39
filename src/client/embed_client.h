// A client of /v1/embeddings for bulk work: texts in, vectors out, whatever the network and a busy
// server do in between. Any thread may call; each call blocks until it has its answer.
//
// Retries what may pass: 408, 429, 502, 503, 504 and lost connections, after Retry-After or a
// back-off that doubles with each attempt and is spread by chance, so that clients do not come back
// all at once. A server can make a client wait kRetryAfterMaxS for each attempt, not longer; the
// waits are counted. Embedding the same text twice does no harm.
//
// The server may be any that speaks OpenAI's protocol; one that is no Penstock has no bulk runs,
// and gets none.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/http_post.h"
#include "common/status.h"

namespace penstock {

struct EmbedClientOptions {
  std::string url;  // "http://host:port", with or without "/v1"
  std::string api_key;
  std::string model;  // "" = the server's default
  std::optional<std::string> prompt;
  std::optional<std::string> prompt_name;
  std::optional<int32_t> dimensions;
  std::optional<bool> normalize;
  HttpPostOptions http;
  // A server that has not answered once is given up after this.
  int first_answer_ms = 5'000;
  int attempts_max = 10;
  int backoff_ms = 250;  // before the second attempt; doubles, at most kBackoffMsMax
};

// Vectors of one request.
struct EmbeddedTexts {
  int32_t dimensions = 0;
  std::vector<float> values;  // [texts, dimensions]
  int64_t prompt_tokens = 0;
  int64_t truncated_inputs = 0;
  int64_t truncated_tokens = 0;
};

class EmbedClient {
 public:
  static constexpr int kBackoffMsMax = 30'000;

  explicit EmbedClient(EmbedClientOptions options);

  // Announces the job, and ends it; what the server says about the memory it released, or "".
  Status BeginRun();
  Expected<std::string> EndRun();

  // Errors that will not pass: the server's message; field() as the server names it ("input[3]").
  Expected<EmbeddedTexts> Embed(const std::vector<std::string>& texts);

  // Calls under way give up at their next retry (kCancelled), later ones at once, but for EndRun.
  void Stop();
  // As Stop, and calls under way end at once.
  void Abort();

  int64_t retries() const { return retries_.load(std::memory_order_relaxed); }
  // How long they waited, of all calls together.
  double waited_s() const { return static_cast<double>(waited_ms_.load()) / 1000; }

 private:
  Expected<PostAnswer> PostWithRetries(const std::string& path, const std::string& body);
  std::vector<std::string> Headers() const;
  // How long a server that has not answered once is still waited for; 0: no longer. Says so, once.
  int PatienceMs(const Status& failure);
  bool Sleep(int ms);  // false: stopped
  std::string run() const;

  const EmbedClientOptions options_;
  const std::string base_;  // without "/v1" and '/' at its end
  HttpPost http_;
  std::atomic<int64_t> retries_{0};
  std::atomic<int64_t> waited_ms_{0};
  mutable std::mutex mutex_;
  std::condition_variable stop_;
  bool stopped_ = false;  // guarded by mutex_
  std::string run_;       // guarded by mutex_; "" = none
  std::mutex renew_mutex_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::atomic<bool> answered_{false};  // any HTTP status, once
  std::atomic<bool> told_{false};      // that it does not answer
};

// The pieces, for tests.
std::string EmbedBody(const std::vector<std::string>& texts, const EmbedClientOptions& options);
// `texts`: how many vectors there must be. One with a number that is not finite is an error, field
// "input[row]".
Expected<EmbeddedTexts> ParseEmbedAnswer(std::string_view body, size_t texts);
// An answer that is none: the message of OpenAI's error object, or the body's beginning.
Status StatusOfAnswer(const PostAnswer& answer);
bool IsWorthRetrying(int http_status);
// Before attempt `attempt` (2, 3, ...); `chance` is from 0 to 1.
int BackoffMs(const EmbedClientOptions& options, int attempt, int retry_after_s, double chance);

}  // namespace penstock
