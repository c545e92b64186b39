#include "client/embed_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "common/json.h"
#include "common/log.h"

namespace penstock {
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

int Sextet(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  return c == '/' ? 63 : -1;
}

// Little-endian float32 in standard base64, as OpenAI's encoding_format says.
bool AppendFloats(std::string_view base64, std::vector<float>* out) {
  while (base64.ends_with('=')) base64.remove_suffix(1);
  std::string bytes;
  bytes.reserve(base64.size() / 4 * 3 + 3);
  uint32_t bits = 0;
  int count = 0;
  for (const char c : base64) {
    const int sextet = Sextet(c);
    if (sextet < 0) return false;
    bits = bits << 6 | static_cast<uint32_t>(sextet);
    if (++count % 4 == 0) {
      for (const int shift : {16, 8, 0}) bytes += static_cast<char>(bits >> shift & 0xFF);
      bits = 0;
    }
  }
  if (count % 4 == 1) return false;
  if (count % 4 == 2) bytes += static_cast<char>(bits >> 4 & 0xFF);
  if (count % 4 == 3) {
    bytes += static_cast<char>(bits >> 10 & 0xFF);
    bytes += static_cast<char>(bits >> 2 & 0xFF);
  }
  if (bytes.size() % sizeof(float) != 0) return false;
  const size_t had = out->size();
  out->resize(had + bytes.size() / sizeof(float));
  std::memcpy(out->data() + had, bytes.data(), bytes.size());
  return true;
}

bool AppendVector(simdjson::dom::element embedding, std::vector<float>* out) {
  std::string_view text;
  if (embedding.get(text) == simdjson::SUCCESS) return AppendFloats(text, out);
  simdjson::dom::array numbers;
  if (embedding.get(numbers) != simdjson::SUCCESS) return false;
  for (const auto number : numbers) {
    double value = 0;
    if (number.get(value) != simdjson::SUCCESS) return false;
    out->push_back(static_cast<float>(value));
  }
  return true;
}

Status Garbled(const std::string& what) {
  return {StatusCode::kInternal, "the server's answer cannot be used: " + what};
}

}  // namespace

std::string EmbedBody(const std::vector<std::string>& texts, const EmbedClientOptions& options) {
  std::string body;
  JsonWriter json(&body);
  json.BeginObject();
  if (!options.model.empty()) json.Field("model", options.model);
  json.Field("encoding_format", "base64");
  if (options.dimensions) json.Field("dimensions", *options.dimensions);
  if (options.normalize) json.Field("normalize", *options.normalize);
  if (options.prompt) json.Field("prompt", *options.prompt);
  if (options.prompt_name) json.Field("prompt_name", *options.prompt_name);
  json.Key("input").BeginArray();
  for (const std::string& text : texts) json.String(text);
  json.EndArray().EndObject();
  return body;
}

Expected<EmbeddedTexts> ParseEmbedAnswer(std::string_view body, size_t texts) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(body));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject object, document.Object());
  PENSTOCK_ASSIGN_OR_RETURN(const auto data, object.GetArray("data"));
  EmbeddedTexts result;
  size_t rows = 0;
  for (const auto item : data) {
    simdjson::dom::object entry;
    if (item.get(entry) != simdjson::SUCCESS) return Garbled("'data' holds no objects");
    uint64_t index = rows;
    if (entry["index"].get(index) == simdjson::SUCCESS && index != rows) {
      return Garbled(fmt::format("vector {} stands where {} should", index, rows));
    }
    const auto embedding = entry["embedding"];
    if (embedding.error() != simdjson::SUCCESS ||
        !AppendVector(embedding.value_unsafe(), &result.values)) {
      return Garbled(fmt::format("'data[{}].embedding' is no vector", rows));
    }
    const auto row = result.values.begin() +
                     static_cast<ptrdiff_t>(rows * static_cast<size_t>(result.dimensions));
    if (!std::all_of(row, result.values.end(), [](float value) { return std::isfinite(value); })) {
      return Status(
          StatusCode::kInternal,
          fmt::format("the server's answer cannot be used: vector {} holds a number that is "
                      "not finite",
                      rows),
          fmt::format("input[{}]", rows));
    }
    if (rows == 0) result.dimensions = static_cast<int32_t>(result.values.size());
    ++rows;
    if (result.values.size() != rows * static_cast<size_t>(result.dimensions)) {
      return Garbled("vectors of different length");
    }
  }
  if (rows != texts || result.dimensions == 0) {
    return Garbled(fmt::format("{} vectors for {} texts", rows, texts));
  }
  constexpr int64_t kCountMax = int64_t{1} << 50;
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject usage, object.GetObjectOrEmpty("usage"));
  PENSTOCK_ASSIGN_OR_RETURN(result.prompt_tokens, usage.GetIntOr("prompt_tokens", 0, 0, kCountMax));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject cut, object.GetObjectOrEmpty("truncated"));
  PENSTOCK_ASSIGN_OR_RETURN(result.truncated_inputs, cut.GetIntOr("inputs", 0, 0, kCountMax));
  PENSTOCK_ASSIGN_OR_RETURN(result.truncated_tokens, cut.GetIntOr("tokens", 0, 0, kCountMax));
  return result;
}

Status StatusOfAnswer(const PostAnswer& answer) {
  std::string message = answer.body.substr(0, kMessageBytesMax), field;
  if (const auto document = JsonDocument::Parse(answer.body, 1 << 20); document.ok()) {
    simdjson::dom::element error;
    std::string_view text;
    if (document->root()["error"].get(error) == simdjson::SUCCESS) {
      if (error["message"].get(text) == simdjson::SUCCESS) message = text;
      if (error["param"].get(text) == simdjson::SUCCESS) field = text;
    }
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

int BackoffMs(const EmbedClientOptions& options, int attempt, int retry_after_s, double chance) {
  const int doublings = std::clamp(attempt - 2, 0, 20);
  const double most = std::min<double>(EmbedClient::kBackoffMsMax,
                                       options.backoff_ms * static_cast<double>(1 << doublings));
  // Never before the server wants it, and never all at the same moment.
  retry_after_s = std::clamp(retry_after_s, 0, HttpPost::kRetryAfterMaxS);
  return retry_after_s * 1000 + static_cast<int>(most * (0.5 + 0.5 * chance));
}

EmbedClient::EmbedClient(EmbedClientOptions options)
    : options_(std::move(options)), base_(BaseOf(options_.url)), http_(options_.http) {}

std::string EmbedClient::run() const {
  const std::lock_guard lock(mutex_);
  return run_;
}

void EmbedClient::Stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  stop_.notify_all();
}

void EmbedClient::Abort() {
  Stop();
  http_.Abort();
}

bool EmbedClient::Sleep(int ms) {
  std::unique_lock lock(mutex_);
  return !stop_.wait_for(lock, std::chrono::milliseconds(ms), [this] { return stopped_; });
}

std::vector<std::string> EmbedClient::Headers() const {
  std::vector<std::string> headers = {"X-Penstock-Priority: bulk"};
  if (!options_.api_key.empty()) headers.push_back("Authorization: Bearer " + options_.api_key);
  if (const std::string id = run(); !id.empty()) headers.push_back("X-Penstock-Bulk-Id: " + id);
  return headers;
}

int EmbedClient::PatienceMs(const Status& failure) {
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

Expected<PostAnswer> EmbedClient::PostWithRetries(const std::string& path,
                                                  const std::string& body) {
  const std::vector<std::string> headers = Headers();
  for (int attempt = 1;; ++attempt) {
    if (!Sleep(0)) return Status(StatusCode::kCancelled, "stopped");
    auto answer = http_.Post(base_ + path, headers, body);
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

Status EmbedClient::BeginRun() {
  PENSTOCK_ASSIGN_OR_RETURN(const PostAnswer answer,
                            PostWithRetries("/v1/bulk", R"({"action":"begin"})"));
  // No Penstock, or one where runs are for administrators: it goes without.
  if (answer.status == 403 || answer.status == 404 || answer.status == 405) return Status::Ok();
  if (answer.status != 200) return StatusOfAnswer(answer);
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(answer.body));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject object, document.Object());
  PENSTOCK_ASSIGN_OR_RETURN(std::string id, object.GetString("id", 64));
  // It goes into a header.
  if (id.find_first_of("\r\n") != std::string::npos) return Garbled("a strange 'id'");
  const std::lock_guard lock(mutex_);
  run_ = std::move(id);
  return Status::Ok();
}

Expected<std::string> EmbedClient::EndRun() {
  const std::string id = run();
  if (id.empty()) return std::string();
  std::string body;
  JsonWriter(&body).BeginObject().Field("action", "end").Field("id", id).EndObject();
  // Also after Stop, when it is tried once.
  http_.Continue();
  const bool stopped = !Sleep(0);
  PENSTOCK_ASSIGN_OR_RETURN(const PostAnswer answer,
                            stopped ? http_.Post(base_ + "/v1/bulk", Headers(), body)
                                    : PostWithRetries("/v1/bulk", body));
  {
    const std::lock_guard lock(mutex_);
    run_.clear();
  }
  if (answer.status != 200) return StatusOfAnswer(answer);
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(answer.body));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject object, document.Object());
  PENSTOCK_ASSIGN_OR_RETURN(const bool released, object.GetBoolOr("released", false));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string reason, object.GetStringOr("reason", ""));
  return (released ? "the server released memory: " : "the server released no memory: ") + reason;
}

Expected<EmbeddedTexts> EmbedClient::Embed(const std::vector<std::string>& texts) {
  const std::string body = EmbedBody(texts, options_);
  const std::string id = run();
  PENSTOCK_ASSIGN_OR_RETURN(PostAnswer answer, PostWithRetries("/v1/embeddings", body));
  if (answer.status == 404) {
    // A server that was started anew, or forgot the run, knows a new one.
    const Status status = StatusOfAnswer(answer);
    if (status.field() != "X-Penstock-Bulk-Id") return status;
    {
      // Of several calls that are told so, the first begins it.
      const std::lock_guard lock(renew_mutex_);
      if (run() == id) PENSTOCK_RETURN_IF_ERROR(BeginRun());
    }
    PENSTOCK_ASSIGN_OR_RETURN(answer, PostWithRetries("/v1/embeddings", body));
  }
  if (answer.status != 200) return StatusOfAnswer(answer);
  return ParseEmbedAnswer(answer.body, texts.size());
}

}  // namespace penstock
