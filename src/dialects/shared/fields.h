// Pieces of requests and responses that several APIs share. Pure functions; errors name the field
// as the client wrote it.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/names.h"
#include "api/service.h"
#include "api/types.h"
#include "base/base64.h"
#include "base/status.h"
#include "http/message.h"
#include "json/json.h"

namespace penstock::dialects {

constexpr size_t kPromptBytesMax = 64 << 10;  // literal prompts
constexpr size_t kFieldsMax = 256;            // of a request's object

// A request's JSON, which must be an object without duplicate keys (kInvalidArgument).
class RequestBody {
 public:
  static Expected<RequestBody> Parse(std::string_view body);
  const JsonObject& object() const { return object_; }
  const JsonObject* operator->() const { return &object_; }

 private:
  RequestBody(JsonDocument document, JsonObject object)
      : document_(std::move(document)), object_(std::move(object)) {}
  JsonDocument document_;
  JsonObject object_;
};

// Fields of a request that mean nothing here, for a header of the answer.
class IgnoredFields {
 public:
  // Names of at most kBytesMax bytes, at most kNamesMax of them; one that is there is not added.
  void Add(std::string_view name);
  void AddHeader(std::vector<std::pair<std::string, std::string>>* headers) const;

 private:
  static constexpr size_t kNamesMax = 8;
  static constexpr size_t kBytesMax = 40;
  std::vector<std::string> names_;
};

// "'PATH' must be WANTED, is ..."
Status WrongType(const std::string& path, std::string_view wanted, JsonElement value);

// The string `key`, or "": a name, as CheckName has it.
Expected<std::string> GetName(const JsonObject& object, std::string_view key);

// truncate: true | false | "NONE" | "START" | "END" (Cohere: the end that is cut off);
// truncation_direction: "left" | "right"; prompt; prompt_name; input_type: "query" |
// "search_query" | "document" | "search_document" | "passage" | "classification" | "clustering".
Status ParseTextOptions(const JsonObject& object, api::TextOptions* options);

// kPayloadTooLarge if the array at `path` has more entries than a request may have. Call it before
// the entries are copied.
Status CheckEntries(JsonArray array, const std::string& path, const api::ServiceOptions& limits);

// An array of strings, or of {"text": string} where `objects` is true.
Expected<std::vector<std::string>> ParseStrings(const JsonObject& object, std::string_view key,
                                                const api::ServiceOptions& limits,
                                                bool objects = false);
// A string, an array of strings, of token ids, or of arrays of token ids (refused where
// ServiceOptions::token_input is false). `single` tells whether one input was given without an
// array around it. `objects`: an entry may also be {"text": string}.
Status ParseInputs(const JsonObject& object, std::string_view key,
                   const api::ServiceOptions& limits, std::vector<api::Input>* inputs, bool* single,
                   bool objects = false);
// An array of integers from 0 to 2^31 - 1; kPayloadTooLarge if there are more of them than the
// longest text may have bytes.
Expected<std::vector<int32_t>> ParseIds(JsonArray array, const std::string& path,
                                        const api::ServiceOptions& limits);

// Absent = nullopt.
Expected<std::optional<bool>> GetOptionalBool(const JsonObject& object, std::string_view key);
Expected<std::optional<int32_t>> GetOptionalInt(const JsonObject& object, std::string_view key,
                                                int32_t min, int32_t max);

inline constexpr size_t kCacheSaltBytesMax = 256;
// cache_salt, as vLLM has it: a text that parts what is cached; "" where it is absent.
// kInvalidArgument: it is empty, or longer than kCacheSaltBytesMax.
Expected<std::string> GetCacheSalt(const JsonObject& object);

// keep_alive, for how long the model stays loaded after the request, as Ollama has it: seconds, or
// a text such as "5m"; negative: for ever.
Expected<std::optional<std::chrono::milliseconds>> GetKeepAlive(const JsonObject& object);

// X-Penstock-Truncated-Inputs and -Tokens.
void AddTruncationHeaders(const encode::Truncation& truncation, http::HttpResponse* response);
// "truncated":{"inputs":n,"tokens":m,"unread_bytes":b}
void WriteTruncation(const encode::Truncation& truncation, JsonWriter* json);

// "aliases", "task", "ready", "dtype", "max_tokens", "max_batch_tokens"; where the model makes
// embeddings, "dimensions", "similarity", "normalized" and "prompts"; where it generates text, its context as "max_model_len" (vLLM's name)
// and "context_length", and "chat", whether it has a chat template: what /info and /v1/models say
// of each model besides its name.
void WriteModelFacts(const api::ModelInfo& model, JsonWriter* json);
// "lifecycle": with "state": waiting, loading, ready, parked (its weights are there), draining,
// absent or failed ("error" says why); for a model of a repository "version", and
// "refused_version" with the highest that was not taken; "keep_alive_s" (-1: for ever), "idle_s",
// "unload_in_s"; the most that it takes in "memory".
void WriteModelState(const api::ModelInfo& model, JsonWriter* json);

using penstock::AppendBase64;
// The numbers as little-endian float32.
void AppendBase64(std::span<const float> numbers, std::string* out);

}  // namespace penstock::dialects
