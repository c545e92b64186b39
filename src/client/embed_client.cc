#include "client/embed_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/base64.h"
#include "json/json.h"

namespace penstock::client {
namespace {

// Little-endian float32 in standard base64, as OpenAI's encoding_format says.
bool AppendFloats(std::string_view base64, std::vector<float>* out) {
  const auto bytes = DecodeBase64(base64);
  if (!bytes || bytes->size() % sizeof(float) != 0) return false;
  const size_t had = out->size();
  out->resize(had + bytes->size() / sizeof(float));
  std::memcpy(out->data() + had, bytes->data(), bytes->size());
  return true;
}

bool AppendVector(JsonElement embedding, std::vector<float>* out) {
  std::string_view text;
  if (embedding.Get(&text)) return AppendFloats(text, out);
  JsonArray numbers;
  if (!embedding.Get(&numbers)) return false;
  for (const auto number : numbers) {
    double value = 0;
    if (!number.Get(&value)) return false;
    out->push_back(static_cast<float>(value));
  }
  return true;
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
    JsonObject entry;
    if (!item.Get(&entry)) return Garbled("'data' holds no objects");
    uint64_t index = rows;
    if (entry["index"].Get(&index) && index != rows) {
      return Garbled(fmt::format("vector {} is given in place of vector {}", index, rows));
    }
    if (!AppendVector(entry["embedding"], &result.values)) {
      return Garbled(fmt::format("'data[{}].embedding' is not a vector", rows));
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

EmbedClient::EmbedClient(EmbedClientOptions options)
    : options_(std::move(options)), server_(options_.server) {}

std::string EmbedClient::run() const {
  const std::lock_guard lock(mutex_);
  return run_;
}

Expected<PostAnswer> EmbedClient::Post(const std::string& path, const std::string& body) {
  const std::string id = run();
  if (id.empty()) return server_.Post(path, body);
  return server_.Post(path, body, {"X-Penstock-Bulk-Id: " + id});
}

Status EmbedClient::BeginRun() {
  PENSTOCK_ASSIGN_OR_RETURN(const PostAnswer answer, Post("/v1/bulk", R"({"action":"begin"})"));
  // Not a Penstock, or one where runs are for administrators: goes on without a run.
  if (answer.status == 403 || answer.status == 404 || answer.status == 405) return Status::Ok();
  if (answer.status != 200) return StatusOfAnswer(answer);
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(answer.body));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject object, document.Object());
  PENSTOCK_ASSIGN_OR_RETURN(std::string id, object.GetString("id", 64));
  // The id is sent in a header.
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
  server_.Continue();
  PENSTOCK_ASSIGN_OR_RETURN(const PostAnswer answer, server_.stopped()
                                                         ? server_.PostOnce("/v1/bulk", body)
                                                         : server_.Post("/v1/bulk", body));
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
  PENSTOCK_ASSIGN_OR_RETURN(PostAnswer answer, Post("/v1/embeddings", body));
  if (answer.status == 404) {
    // A server that was restarted, or forgot the run, gets a new one.
    const Status status = StatusOfAnswer(answer);
    if (status.field() != "X-Penstock-Bulk-Id") return status;
    {
      // The first of concurrent calls with this error begins the new run.
      const std::lock_guard lock(renew_mutex_);
      if (run() == id) PENSTOCK_RETURN_IF_ERROR(BeginRun());
    }
    PENSTOCK_ASSIGN_OR_RETURN(answer, Post("/v1/embeddings", body));
  }
  if (answer.status != 200) return StatusOfAnswer(answer);
  return ParseEmbedAnswer(answer.body, texts.size());
}

}  // namespace penstock::client
