#include "dialects/shared/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/ascii.h"
#include "base/duration.h"

namespace penstock::dialects {

Status WrongType(const std::string& path, std::string_view wanted, JsonElement value) {
  return Status::InvalidArgument(
      "'" + path + "' must be " + std::string(wanted) + ", is " + JsonTypeName(value), path);
}

namespace {

Status NotOneOf(const std::string& path, std::string_view choices, std::string_view is) {
  constexpr size_t kShownMax = 40;
  // Cut at a byte, so maybe inside a character: the writer repairs that.
  const std::string shown(is.substr(0, kShownMax));
  return Status::InvalidArgument(
      "'" + path + "' must be one of " + std::string(choices) + ", is \"" + shown + "\"", path);
}

Status ParseTruncate(const JsonObject& object, api::TextOptions* options) {
  const auto value = object.Find("truncate");
  if (!value) return Status::Ok();
  const std::string path = object.PathOf("truncate");
  bool truth = false;
  std::string_view text;
  if (value->Get(&truth)) {
    options->truncate = truth;
    return Status::Ok();
  }
  if (!value->Get(&text)) {
    return WrongType(path, "true, false, \"NONE\", \"START\" or \"END\"", *value);
  }
  const std::string word = LowerAscii(text);
  if (word != "none" && word != "start" && word != "end") {
    return NotOneOf(path, "true, false, \"NONE\", \"START\", \"END\"", text);
  }
  options->truncate = word != "none";
  options->side = word == "start" ? text::TruncationSide::kLeft : text::TruncationSide::kRight;
  return Status::Ok();
}

Status ParseInputType(const JsonObject& object, api::TextOptions* options) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string type, GetName(object, "input_type"));
  if (type == "query" || type == "search_query") {
    options->input_type = api::InputType::kQuery;
  } else if (type == "document" || type == "search_document" || type == "passage") {
    options->input_type = api::InputType::kDocument;
  } else if (!type.empty() && type != "classification" && type != "clustering") {
    return NotOneOf(object.PathOf("input_type"),
                    "\"query\", \"search_query\", \"document\", \"search_document\", \"passage\", "
                    "\"classification\", \"clustering\"",
                    type);
  }
  return Status::Ok();
}

Expected<std::string> ParseString(JsonElement value, const std::string& path, bool objects) {
  std::string_view text;
  if (value.Get(&text)) return std::string(text);
  JsonObject object;
  if (objects && value.Get(&object)) {
    const JsonObject members(object, path);
    if (members.Has("image")) {
      return Status::InvalidArgument(
          "'" + path + ".image' is not supported: the models here read text", path + ".image");
    }
    return members.GetString("text");
  }
  return WrongType(path, objects ? "a string or an object with \"text\"" : "a string", value);
}

std::string Indexed(const std::string& path, size_t index) {
  return path + "[" + std::to_string(index) + "]";
}

api::Input FromText(std::string_view text) {
  api::Input input;
  input.text = std::string(text);
  return input;
}

api::Input FromIds(std::vector<int32_t> ids) {
  api::Input input;
  input.ids = std::move(ids);
  input.is_ids = true;
  return input;
}

Status NoTokenInput(const std::string& path) {
  return Status::InvalidArgument(
      "'" + path +
          "' holds token ids, which this server does not take (--no-token-input); it must "
          "hold texts",
      path);
}

// The error of an entry that is not a token id.
Status NotAnId(JsonElement value, const std::string& path) {
  if (!value.is_integer()) return WrongType(path, "a token id", value);
  return Status::InvalidArgument("'" + path + "' must be a token id from 0 to 2147483647", path);
}

}  // namespace

Expected<RequestBody> RequestBody::Parse(std::string_view body) {
  if (body.empty()) {
    return Status::InvalidArgument("the request has no body; a JSON object is needed");
  }
  PENSTOCK_ASSIGN_OR_RETURN(JsonDocument document, JsonDocument::Parse(body));
  PENSTOCK_ASSIGN_OR_RETURN(JsonObject object, document.Object());
  // Parsers differ in which of two values counts, so both are refused.
  std::vector<std::string_view> keys;
  bool too_many = false;
  object.ForEach([&](std::string_view key, JsonElement) {
    too_many = too_many || keys.size() == kFieldsMax;
    if (!too_many) keys.push_back(key);
  });
  if (too_many) {
    return Status::InvalidArgument("the request has more than " + std::to_string(kFieldsMax) +
                                   " fields");
  }
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  if (twice != keys.end()) {
    const std::string key(twice->substr(0, api::kNameBytesMax));
    return Status::InvalidArgument("'" + key + "' is given twice", key);
  }
  return RequestBody(std::move(document), std::move(object));
}

void IgnoredFields::Add(std::string_view name) {
  std::string safe(name.substr(0, kBytesMax));
  for (char& c : safe) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!plain && c != '_' && c != '-' && c != '.' && c != '[' && c != ']') c = '?';
  }
  const bool there = std::find(names_.begin(), names_.end(), safe) != names_.end();
  if (!there && names_.size() < kNamesMax) names_.push_back(std::move(safe));
}

void IgnoredFields::AddHeader(std::vector<std::pair<std::string, std::string>>* headers) const {
  if (names_.empty()) return;
  headers->emplace_back("X-Penstock-Ignored-Options", fmt::format("{}", fmt::join(names_, ", ")));
}

Expected<std::string> GetName(const JsonObject& object, std::string_view key) {
  PENSTOCK_ASSIGN_OR_RETURN(std::string name, object.GetStringOr(key, "", api::kNameBytesMax));
  PENSTOCK_RETURN_IF_ERROR(api::CheckName(name, object.PathOf(key)));
  return name;
}

Expected<std::optional<std::chrono::milliseconds>> GetKeepAlive(const JsonObject& object) {
  constexpr const char* kKey = "keep_alive";
  const auto value = object.Find(kKey);
  if (!value) return std::optional<std::chrono::milliseconds>();
  std::string text;
  if (value->is_string()) {
    PENSTOCK_ASSIGN_OR_RETURN(text, object.GetString(kKey, api::kNameBytesMax));
  } else {
    PENSTOCK_ASSIGN_OR_RETURN(const double seconds, object.GetNumber(kKey));
    text = fmt::format("{:.3f}", std::clamp(seconds, -1.0, 1e12));
  }
  const auto duration = ParseDuration(text);
  if (!duration.ok()) {
    return Status::InvalidArgument("keep_alive: " + duration.status().message(),
                                   object.PathOf(kKey));
  }
  return std::optional<std::chrono::milliseconds>(*duration);
}

Expected<std::string> GetCacheSalt(const JsonObject& object) {
  constexpr const char* kKey = "cache_salt";
  if (!object.Find(kKey)) return std::string();
  PENSTOCK_ASSIGN_OR_RETURN(std::string salt, object.GetString(kKey, kCacheSaltBytesMax));
  if (!salt.empty()) return salt;
  return Status::InvalidArgument("'" + object.PathOf(kKey) + "' must not be empty",
                                 object.PathOf(kKey));
}

Status ParseTextOptions(const JsonObject& object, api::TextOptions* options) {
  PENSTOCK_ASSIGN_OR_RETURN(options->cache_salt, GetCacheSalt(object));
  PENSTOCK_ASSIGN_OR_RETURN(options->keep_alive, GetKeepAlive(object));
  PENSTOCK_RETURN_IF_ERROR(ParseTruncate(object, options));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string side, GetName(object, "truncation_direction"));
  if (!side.empty()) {
    const std::string word = LowerAscii(side);
    if (word != "left" && word != "right") {
      return NotOneOf(object.PathOf("truncation_direction"), "\"left\", \"right\"", side);
    }
    options->side = word == "left" ? text::TruncationSide::kLeft : text::TruncationSide::kRight;
  }
  PENSTOCK_RETURN_IF_ERROR(ParseInputType(object, options));
  if (object.Has("prompt_name")) {
    PENSTOCK_ASSIGN_OR_RETURN(options->prompt_name, GetName(object, "prompt_name"));
  }
  if (object.Has("prompt")) {
    PENSTOCK_ASSIGN_OR_RETURN(options->prompt, object.GetString("prompt", kPromptBytesMax));
  }
  return Status::Ok();
}

Status CheckEntries(JsonArray items, const std::string& path, const api::ServiceOptions& limits) {
  const auto limit = static_cast<size_t>(limits.inputs_per_request);
  size_t entries = 0;
  for ([[maybe_unused]] const JsonElement item : items) {
    if (++entries <= limit) continue;
    return {StatusCode::kPayloadTooLarge,
            "'" + path + "' has more than " + std::to_string(limit) +
                " entries, the limit (--max-client-batch-size)",
            path};
  }
  return Status::Ok();
}

Expected<std::vector<std::string>> ParseStrings(const JsonObject& object, std::string_view key,
                                                const api::ServiceOptions& limits, bool objects) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonArray items, object.GetArray(key));
  const std::string path = object.PathOf(key);
  PENSTOCK_RETURN_IF_ERROR(CheckEntries(items, path, limits));
  std::vector<std::string> strings;
  for (const JsonElement item : items) {
    PENSTOCK_ASSIGN_OR_RETURN(std::string text,
                              ParseString(item, Indexed(path, strings.size()), objects));
    strings.push_back(std::move(text));
  }
  return strings;
}

Expected<std::vector<int32_t>> ParseIds(JsonArray items, const std::string& path,
                                        const api::ServiceOptions& limits) {
  const auto limit = static_cast<size_t>(limits.input_bytes);
  std::vector<int32_t> ids;
  for (const JsonElement item : items) {
    if (ids.size() == limit) {
      return Status(StatusCode::kPayloadTooLarge,
                    "'" + path + "' has more than " + std::to_string(limit) +
                        " ids, the limit (--max-input-bytes)",
                    path);
    }
    int64_t id = 0;
    if (!item.Get(&id) || id < 0 || id > std::numeric_limits<int32_t>::max()) {
      return NotAnId(item, Indexed(path, ids.size()));
    }
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

Status ParseInputs(const JsonObject& object, std::string_view key,
                   const api::ServiceOptions& limits, std::vector<api::Input>* inputs, bool* single,
                   bool objects) {
  const std::string path = object.PathOf(key);
  const auto value = object.Find(key);
  if (!value) return Status::InvalidArgument("'" + path + "' is missing", path);
  inputs->clear();
  *single = false;
  std::string_view text;
  if (value->Get(&text)) {
    *single = true;
    inputs->push_back(FromText(text));
    inputs->back().single = true;
    return Status::Ok();
  }
  JsonArray items;
  if (!value->Get(&items)) {
    return WrongType(path, "a string, an array of strings, or token ids", *value);
  }
  if (items.begin() != items.end() && (*items.begin()).is_number()) {
    *single = true;
    if (!limits.token_input) return NoTokenInput(path);
    PENSTOCK_ASSIGN_OR_RETURN(std::vector<int32_t> ids, ParseIds(items, path, limits));
    inputs->push_back(FromIds(std::move(ids)));
    inputs->back().single = true;
    return Status::Ok();
  }
  PENSTOCK_RETURN_IF_ERROR(CheckEntries(items, path, limits));
  // All must be of the first one's kind.
  const bool of_ids = items.begin() != items.end() && (*items.begin()).is_array();
  if (of_ids && !limits.token_input) return NoTokenInput(path);
  for (const JsonElement item : items) {
    JsonArray ids;
    if (!of_ids && item.Get(&text)) {
      inputs->push_back(FromText(text));
    } else if (of_ids && item.Get(&ids)) {
      PENSTOCK_ASSIGN_OR_RETURN(std::vector<int32_t> parsed,
                                ParseIds(ids, Indexed(path, inputs->size()), limits));
      inputs->push_back(FromIds(std::move(parsed)));
    } else if (!of_ids && objects && item.is_object()) {
      PENSTOCK_ASSIGN_OR_RETURN(const std::string owned,
                                ParseString(item, Indexed(path, inputs->size()), true));
      inputs->push_back(FromText(owned));
    } else {
      return WrongType(Indexed(path, inputs->size()), of_ids ? "an array of token ids" : "a string",
                       item);
    }
  }
  return Status::Ok();
}

Expected<std::optional<bool>> GetOptionalBool(const JsonObject& object, std::string_view key) {
  if (!object.Has(key)) return std::optional<bool>();
  PENSTOCK_ASSIGN_OR_RETURN(const bool truth, object.GetBool(key));
  return std::optional<bool>(truth);
}

Expected<std::optional<int32_t>> GetOptionalInt(const JsonObject& object, std::string_view key,
                                                int32_t min, int32_t max) {
  if (!object.Has(key)) return std::optional<int32_t>();
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t number, object.GetInt(key, min, max));
  return std::optional<int32_t>(static_cast<int32_t>(number));
}

void AddTruncationHeaders(const encode::Truncation& truncation, http::HttpResponse* response) {
  response->headers.emplace_back("X-Penstock-Truncated-Inputs", std::to_string(truncation.inputs));
  response->headers.emplace_back("X-Penstock-Truncated-Tokens", std::to_string(truncation.tokens));
  response->headers.emplace_back("X-Penstock-Unread-Bytes",
                                 std::to_string(truncation.unread_bytes));
}

void WriteTruncation(const encode::Truncation& truncation, JsonWriter* json) {
  json->Key("truncated").BeginObject().Field("inputs", truncation.inputs);
  json->Field("tokens", truncation.tokens);
  json->Field("unread_bytes", truncation.unread_bytes).EndObject();
}

void WriteModelFacts(const api::ModelInfo& model, JsonWriter* json) {
  json->Key("aliases").BeginArray();
  for (const std::string& alias : model.aliases) json->String(alias);
  json->EndArray().Field("task", model.task).Field("ready", model.ready);
  json->Field("dtype", model.dtype).Field("max_tokens", model.max_tokens);
  json->Field("max_batch_tokens", model.max_batch_tokens);
  if (model.dimensions > 0) {
    json->Field("dimensions", model.dimensions).Field("similarity", model.similarity);
    json->Field("normalized", model.normalizes).Key("prompts").BeginObject();
    for (const auto& [name, prompt] : model.prompts) json->Field(name, prompt);
    json->EndObject();
  }
  if (model.context > 0) {
    json->Field("max_model_len", model.context).Field("context_length", model.context);
    json->Field("chat", model.chat);
  }
  if (model.signature != nullptr) {
    json->Field("platform", model.platform);
    json->Field("max_batch_size", model.signature->max_batch_size);
  }
  WriteModelState(model, json);
}

void WriteModelState(const api::ModelInfo& model, JsonWriter* json) {
  json->Key("lifecycle").BeginObject().Field("state", model.state);
  if (!model.error.empty()) json->Field("error", model.error);
  if (model.version > 0) json->Field("version", model.version);
  if (model.refused_version > 0) {
    json->Key("refused_version").BeginObject().Field("version", model.refused_version);
    json->Field("error", model.refused_error).EndObject();
  }
  if (model.load_percent >= 0) json->Field("load_percent", model.load_percent);
  json->Field("pinned", model.pinned);
  const auto seconds = [](double s) { return std::round(s * 1000) / 1000; };
  const double keep_s = static_cast<double>(model.keep_alive.count()) / 1000;
  json->Field("keep_alive_s", keep_s < 0 ? -1 : keep_s);
  if (model.idle_s >= 0) json->Field("idle_s", seconds(model.idle_s));
  if (model.unload_in_s >= 0) json->Field("unload_in_s", seconds(model.unload_in_s));
  json->Field("loads", model.loads).Field("load_s", seconds(model.load_s));
  json->Field("evictions", model.evictions).Field("requests_waiting", model.requests_waiting);
  json->Key("memory").BeginObject();
  json->Field("weights_bytes", model.weights_memory);
  json->Field("activations_bytes", model.activations_memory);
  json->Field("cache_bytes", model.cache_memory).EndObject().EndObject();
}

void AppendBase64(std::span<const float> numbers, std::string* out) {
  static_assert(std::endian::native == std::endian::little);
  AppendBase64({reinterpret_cast<const uint8_t*>(numbers.data()), numbers.size_bytes()}, out);
}

}  // namespace penstock::dialects
