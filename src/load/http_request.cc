#include "load/http_request.h"

#include <fmt/format.h>

#include <charconv>

#include "json/json_writer.h"

namespace penstock::load {
namespace {

constexpr std::string_view kRerankQuery = "how is the pressure of the water measured";

const char* PathOf(LoadRoute route) {
  switch (route) {
    case LoadRoute::kOpenAiEmbeddings:
      return "/v1/embeddings";
    case LoadRoute::kTeiEmbed:
      return "/embed";
    case LoadRoute::kRerank:
      return "/v1/rerank";
    case LoadRoute::kClassify:
      return "/v1/classify";
  }
  return "/";
}

std::string MakeBody(const HttpLoad& load, int batch) {
  std::string body;
  JsonWriter json(&body);
  json.BeginObject();
  if (!load.model.empty()) json.Field("model", load.model);
  switch (load.route) {
    case LoadRoute::kOpenAiEmbeddings:
      json.Field("encoding_format", load.base64 ? "base64" : "float").Key("input");
      break;
    case LoadRoute::kTeiEmbed:
      json.Key("inputs");
      break;
    case LoadRoute::kClassify:
      json.Key("input");
      break;
    case LoadRoute::kRerank:
      json.Field("query", kRerankQuery).Key("documents");
      break;
  }
  json.BeginArray();
  for (int i = 0; i < batch; ++i) json.String(load.next_text());
  json.EndArray().EndObject();
  return body;
}

}  // namespace

WireRequest MakeRequest(const HttpTarget& target, const HttpLoad& load, bool with_timeout) {
  const int batch = load.next_batch != nullptr ? load.next_batch() : load.batch;
  const std::string body = MakeBody(load, batch);
  WireRequest request;
  request.texts = static_cast<uint64_t>(batch);
  request.bytes = fmt::format(
      "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
      PathOf(load.route), AuthorityOf(target), body.size());
  if (!target.api_key.empty()) {
    request.bytes += fmt::format("Authorization: Bearer {}\r\n", target.api_key);
  }
  if (!load.priority.empty()) {
    request.bytes += fmt::format("X-Penstock-Priority: {}\r\n", load.priority);
  }
  if (with_timeout && load.timeout_ms > 0) {
    request.bytes += fmt::format("X-Request-Timeout-Ms: {}\r\n", load.timeout_ms);
  }
  request.bytes += "\r\n";
  request.bytes += body;
  return request;
}

uint64_t TokensOfAnswer(std::string_view body) {
  for (const std::string_view key : {"\"prompt_tokens\":", "\"total_tokens\":"}) {
    // From the end: usage comes last, after what may be megabytes of vectors.
    const size_t at = body.rfind(key);
    if (at == std::string_view::npos) continue;
    size_t begin = at + key.size();
    while (begin < body.size() && body[begin] == ' ') ++begin;
    uint64_t tokens = 0;
    std::from_chars(body.data() + begin, body.data() + body.size(), tokens);
    return tokens;
  }
  return 0;
}

}  // namespace penstock::load
