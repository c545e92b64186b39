#include "client/server_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "json/json.h"
#include "log/log.h"

namespace penstock::client {
namespace {

constexpr size_t kMessageBytesMax = 300;
constexpr int kToldWaitMs = 5'000;  // longer ones are logged

std::string BaseOf(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  if (url.ends_with("/v1")) url.resize(url.size() - 3);
  while (url.ends_with('/')) url.pop_back();
  return url;
}

double Chance() {
  thread_local std::minstd_rand random{std::random_device()()};
  return std::uniform_real_distribution<double>(0, 1)(random);
}

}  // namespace

Status Garbled(const std::string& what) {
  return {StatusCode::kInternal, "the server's answer cannot be used: " + what};
}

Status StatusOfAnswer(const PostAnswer& answer) {
  std::string message = answer.body.substr(0, kMessageBytesMax), field;
  if (const auto document = JsonDocument::Parse(answer.body, 1 << 20); document.ok()) {
    const auto read = [](JsonElement in, const char* key, std::string* out) {
      std::string_view text;
      if (in[key].Get(&text)) *out = text;
    };
    const JsonElement root = document->root();
    read(root, "message", &message);
    read(root, "error", &message);
    read(root, "field", &field);
    read(root["error"], "message", &message);
    read(root["error"], "param", &field);
  }
  StatusCode code = StatusCode::kInternal;
  if (answer.status == 400 || answer.status == 422) code = StatusCode::kInvalidArgument;
  if (answer.status == 401 || answer.status == 403) code = StatusCode::kUnauthenticated;
  if (answer.status == 404) code = StatusCode::kNotFound;
  if (answer.status == 413) code = StatusCode::kPayloadTooLarge;
  if (IsWorthRetrying(answer.status)) code = StatusCode::kUnavailable;
  return {code, fmt::format("the server says {}: {}", answer.status, message), std::move(field)};
}

bool IsWorthRetrying(int http_status) {
  return http_status == 408 || http_status == 429 || (http_status >= 502 && http_status <= 504);
}

int BackoffMs(const ServerClientOptions& options, int attempt, int retry_after_s, double chance) {
  const int doublings = std::clamp(attempt - 2, 0, 20);
  const double most = std::min<double>(ServerClient::kBackoffMsMax,
                                       options.backoff_ms * static_cast<double>(1 << doublings));
  // Never before Retry-After, and spread, so that clients do not come back at once.
  retry_after_s = std::clamp(retry_after_s, 0, HttpPost::kRetryAfterMaxS);
  return retry_after_s * 1000 + static_cast<int>(most * (0.5 + 0.5 * chance));
}

ServerClient::ServerClient(ServerClientOptions options)
    : options_(std::move(options)), base_(BaseOf(options_.url)), http_(options_.http) {}

void ServerClient::Stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  stop_.notify_all();
}

bool ServerClient::stopped() { return !Sleep(0); }

void ServerClient::Abort() {
  Stop();
  http_.Abort();
}

bool ServerClient::Sleep(int ms) {
  std::unique_lock lock(mutex_);
  return !stop_.wait_for(lock, std::chrono::milliseconds(ms), [this] { return stopped_; });
}

std::vector<std::string> ServerClient::Headers(const std::vector<std::string>& more) const {
  std::vector<std::string> headers = {options_.interactive ? "X-Penstock-Priority: interactive"
                                                           : "X-Penstock-Priority: bulk"};
  if (!options_.api_key.empty()) headers.push_back("Authorization: Bearer " + options_.api_key);
  headers.insert(headers.end(), more.begin(), more.end());
  return headers;
}

int ServerClient::PatienceMs(const Status& failure) {
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - begin_);
  const int left = options_.first_answer_ms - static_cast<int>(waited.count());
  if (left <= 0) return 0;
  if (!told_.exchange(true)) {
    LogWarn("{}; trying for {:g} s (--connect-timeout)", failure.message(),
            options_.first_answer_ms / 1000.0);
  }
  return left;
}

Expected<PostAnswer> ServerClient::PostOnce(const std::string& path, const std::string& body,
                                            const std::vector<std::string>& more) {
  return http_.Post(base_ + path, Headers(more), body);
}

Expected<PostAnswer> ServerClient::PostStream(const std::string& path, const std::string& body,
                                              std::function<void(std::string_view)> on_data) {
  return http_.PostStream(base_ + path, Headers({}), body, std::move(on_data));
}

Expected<PostAnswer> ServerClient::GetOnce(const std::string& path) {
  return http_.Get(base_ + path, Headers({}));
}

Expected<PostAnswer> ServerClient::Post(const std::string& path, const std::string& body,
                                        const std::vector<std::string>& more) {
  for (int attempt = 1;; ++attempt) {
    if (stopped()) return Status(StatusCode::kCancelled, "stopped");
    auto answer = PostOnce(path, body, more);
    const bool passes = answer.ok() ? IsWorthRetrying(answer->status)
                                    : answer.status().code() == StatusCode::kUnavailable;
    if (answer.ok()) answered_ = true;
    if (!passes || attempt >= options_.attempts_max) return answer;
    int wait_ms =
        BackoffMs(options_, attempt + 1, answer.ok() ? answer->retry_after_s : 0, Chance());
    if (!answered_) {
      const int patience_ms = PatienceMs(answer.status());
      if (patience_ms == 0) return answer;
      wait_ms = std::min(wait_ms, patience_ms);
    }
    retries_.fetch_add(1, std::memory_order_relaxed);
    if (wait_ms >= kToldWaitMs) {
      LogInfo("{}{}: trying again in {:.0f} s (attempt {} of {})", base_, path, wait_ms / 1000.0,
              attempt + 1, options_.attempts_max);
    }
    waited_ms_.fetch_add(wait_ms, std::memory_order_relaxed);
    if (!Sleep(wait_ms)) return Status(StatusCode::kCancelled, "stopped");
  }
}

}  // namespace penstock::client
