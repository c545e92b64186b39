#include "load/chat_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <charconv>
#include <cmath>
#include <memory>

#include "json/json.h"
#include "load/http_link.h"
#include "load/http_texts.h"

namespace penstock::load {
namespace {

// Words of the two prompts that tell how long words are. The longer one is short enough for models
// of small contexts whose letters are tokens.
constexpr int kFewWords = 8;
constexpr int kManyWords = 64;
constexpr int kLargeEvents = 20;  // top_logprobs; the most that is common
constexpr size_t kSaidMax = 300;  // of a server's error

struct Body {
  std::string_view prompt;
  int output_tokens = 1;
  bool stream = true;
  bool large_events = false;
};

std::string MakeBody(const ChatRequestOptions& options, const Body& body) {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject();
  if (!options.model.empty()) json.Field("model", options.model);
  if (options.completions) {
    json.Field("prompt", body.prompt).Field("max_tokens", body.output_tokens);
    if (body.large_events) json.Field("logprobs", 5);
  } else {
    json.Key("messages").BeginArray().BeginObject();
    json.Field("role", "user").Field("content", body.prompt).EndObject().EndArray();
    json.Field("max_completion_tokens", body.output_tokens);
    if (body.large_events) json.Field("logprobs", true).Field("top_logprobs", kLargeEvents);
  }
  json.Key("temperature").Int(0);
  if (options.ignore_eos) json.Field("ignore_eos", true);
  if (body.stream) {
    json.Field("stream", true).Key("stream_options").BeginObject();
    json.Field("include_usage", true).EndObject();
  }
  json.EndObject();
  return text;
}

std::string MakeBytes(const HttpTarget& target, const ChatRequestOptions& options,
                      const Body& content, bool with_timeout) {
  const std::string body = MakeBody(options, content);
  std::string bytes = fmt::format(
      "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
      options.completions ? "/v1/completions" : "/v1/chat/completions", AuthorityOf(target),
      body.size());
  if (!target.api_key.empty()) {
    bytes += fmt::format("Authorization: Bearer {}\r\n", target.api_key);
  }
  if (!options.priority.empty()) {
    bytes += fmt::format("X-Penstock-Priority: {}\r\n", options.priority);
  }
  if (with_timeout && options.timeout_ms > 0) {
    bytes += fmt::format("X-Request-Timeout-Ms: {}\r\n", options.timeout_ms);
  }
  return bytes + "\r\n" + body;
}

// Sends a request and waits for its whole answer.
Status Ask(const HttpTarget& target, std::string bytes, int* status, std::string* body) {
  boost::asio::io_context context{1};
  PENSTOCK_ASSIGN_OR_RETURN(const auto endpoint, ResolveTarget(target, &context));
  PENSTOCK_ASSIGN_OR_RETURN(const auto tls, MakeTlsContext(target));
  const auto link = std::make_shared<HttpLink>(&context, tls.get());
  HttpLink::ErrorCode failed;
  const auto or_fail = [&failed](auto next) {
    return [&failed, next](const HttpLink::ErrorCode& ec) { ec ? void(failed = ec) : next(); };
  };
  link->Connect(endpoint, target.host, or_fail([&] {
                  link->Write(std::move(bytes), or_fail([&] { link->Read(or_fail([] {})); }));
                }));
  context.run();
  if (failed) return {StatusCode::kUnavailable, UrlOf(target) + ": " + failed.message()};
  *status = static_cast<int>(link->response().result_int());
  *body = link->response().body();
  return Status::Ok();
}

Expected<double> PromptTokens(const HttpTarget& target, const ChatRequestOptions& options,
                              int words) {
  std::mt19937_64 random(1);
  std::string prompt;
  AppendWords(words, &random, &prompt);
  Body content;
  content.prompt = prompt;
  content.stream = false;
  int status = 0;
  std::string body;
  PENSTOCK_RETURN_IF_ERROR(Ask(target, MakeBytes(target, options, content, false), &status, &body));
  const auto document = JsonDocument::Parse(body);
  if (status == 200 && document.ok()) {
    const auto object = document->Object();
    const auto usage = object.ok() ? object->GetObjectOrEmpty("usage") : object.status();
    const auto tokens = usage.ok() ? usage->GetNumber("prompt_tokens") : usage.status();
    if (tokens.ok()) return *tokens;
    return Status(StatusCode::kUnavailable, UrlOf(target) + ": an answer without usage");
  }
  return Status(StatusCode::kUnavailable,
                fmt::format("{}: status {}: {}", UrlOf(target), status, body.substr(0, kSaidMax)));
}

}  // namespace

Expected<TokenRange> TokenRange::Parse(const std::string& text) {
  TokenRange range;
  const char* const end = text.data() + text.size();
  auto read = std::from_chars(text.data(), end, range.min);
  bool good = read.ec == std::errc();
  range.max = range.min;
  if (good && read.ptr != end) {
    good = *read.ptr == '-';
    if (good) {
      read = std::from_chars(read.ptr + 1, end, range.max);
      good = read.ec == std::errc() && read.ptr == end;
    }
  }
  if (good && range.min >= 1 && range.max >= range.min && range.max <= kMost) return range;
  return Status::InvalidArgument(
      fmt::format("tokens are N or MIN-MAX, from 1 to {}, not '{}'", kMost, text));
}

int TokenRange::Draw(std::mt19937_64* random) const {
  return std::uniform_int_distribution<int>(min, max)(*random);
}

int PromptScale::WordsFor(int tokens) const {
  return std::max(1, static_cast<int>(std::lround((tokens - fixed) / per_word)));
}

std::string ChatRequests::Prompt(int words) {
  const int shared = static_cast<int>(std::lround(options_.prefix_share * words));
  if (shared > prefix_words_) {
    std::mt19937_64 random(~seed_);
    prefix_.clear();
    AppendWords(shared, &random, &prefix_);
    prefix_words_ = shared;
  }
  // The first `shared` words of it.
  size_t end = 0;
  for (int i = 0; i < shared; ++i) end = std::min(prefix_.find(' ', end + 1), prefix_.size());
  std::string prompt = prefix_.substr(0, end);
  AppendWords(words - shared, &random_, &prompt);
  return prompt;
}

ChatRequests::Request ChatRequests::Next(bool with_timeout, bool large_events) {
  std::pair<int, int> given;
  if (options_.next_tokens != nullptr) given = options_.next_tokens();
  const bool drawn = options_.next_tokens == nullptr;
  const std::string prompt =
      Prompt(scale_.WordsFor(drawn ? options_.prompt_tokens.Draw(&random_) : given.first));
  Request request;
  request.output_tokens = drawn ? options_.output_tokens.Draw(&random_) : given.second;
  Body body;
  body.prompt = prompt;
  body.output_tokens = request.output_tokens;
  body.large_events = large_events;
  request.bytes = MakeBytes(target_, options_, body, with_timeout);
  return request;
}

Expected<PromptScale> MeasurePromptScale(const HttpTarget& target,
                                         const ChatRequestOptions& options) {
  PENSTOCK_ASSIGN_OR_RETURN(const double few, PromptTokens(target, options, kFewWords));
  PENSTOCK_ASSIGN_OR_RETURN(const double many, PromptTokens(target, options, kManyWords));
  PromptScale scale;
  scale.per_word = std::max(0.1, (many - few) / (kManyWords - kFewWords));
  scale.fixed = few - scale.per_word * kFewWords;
  return scale;
}

}  // namespace penstock::load
