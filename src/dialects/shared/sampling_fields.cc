#include "dialects/shared/sampling_fields.h"

#include <charconv>
#include <limits>

#include "dialects/shared/fields.h"

namespace penstock::dialects {
namespace {

Status TooMany(const std::string& path, size_t most) {
  return Status::InvalidArgument(
      "'" + path + "' has more than " + std::to_string(most) + " entries, the limit", path);
}

Status ParseBiases(const JsonObject& object, std::vector<sample::LogitBias>* biases) {
  if (!object.Has("logit_bias")) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject map, object.GetObject("logit_bias"));
  Status status;
  map.ForEach([&](std::string_view key, JsonElement value) {
    if (!status.ok()) return;
    const std::string path = map.PathOf(key.substr(0, 20));
    sample::LogitBias bias;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), bias.id);
    double number = 0;
    if (error != std::errc() || end != key.data() + key.size() || bias.id < 0) {
      status = Status::InvalidArgument("'" + path + "' is not the id of a token", path);
    } else if (!value.Get(&number)) {
      status = WrongType(path, "a number", value);
    } else if (biases->size() == sample::kLogitBiasesMax) {
      status = TooMany("logit_bias", sample::kLogitBiasesMax);
    } else {
      bias.bias = static_cast<float>(number);
      biases->push_back(bias);
    }
  });
  return status;
}

Status ParseStopIds(const JsonObject& object, std::vector<int32_t>* ids) {
  if (!object.Has("stop_token_ids")) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(const JsonArray items, object.GetArray("stop_token_ids"));
  const std::string path = object.PathOf("stop_token_ids");
  for (const JsonElement item : items) {
    if (ids->size() == sample::kStopTokensMax) return TooMany(path, sample::kStopTokensMax);
    int64_t id = 0;
    if (!item.Get(&id) || id < 0 || id > std::numeric_limits<int32_t>::max()) {
      return WrongType(path + "[" + std::to_string(ids->size()) + "]", "the id of a token", item);
    }
    ids->push_back(static_cast<int32_t>(id));
  }
  return Status::Ok();
}

bool AsksForSomething(JsonElement value) {
  bool truth = false;
  double number = 0;
  std::string_view text;
  JsonArray items;
  JsonObject members;
  if (value.is_null()) return false;
  if (value.Get(&truth)) return truth;
  if (value.Get(&number)) return number != 0;
  if (value.Get(&text)) return !text.empty();
  if (value.Get(&items)) return items.begin() != items.end();
  if (value.Get(&members)) return members.begin() != members.end();
  return true;
}

}  // namespace

Status ParseOptionalNumber(const JsonObject& object, std::string_view key,
                           std::optional<float>* number) {
  if (!object.Has(key)) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(const double value, object.GetNumber(key, -1e30, 1e30));
  *number = static_cast<float>(value);
  return Status::Ok();
}

Status ParseStop(const JsonObject& object, std::string_view key, std::vector<std::string>* stop) {
  const auto value = object.Find(key);
  if (!value) return Status::Ok();
  const std::string path = object.PathOf(key);
  std::string_view text;
  if (value->Get(&text)) {
    stop->emplace_back(text);
    return Status::Ok();
  }
  JsonArray items;
  if (!value->Get(&items)) {
    return WrongType(path, "a string or an array of strings", *value);
  }
  for (const JsonElement item : items) {
    if (stop->size() == sample::kStopStringsMax) return TooMany(path, sample::kStopStringsMax);
    if (!item.Get(&text)) {
      return WrongType(path + "[" + std::to_string(stop->size()) + "]", "a string", item);
    }
    stop->emplace_back(text);
  }
  return Status::Ok();
}

Status ParseSampling(const JsonObject& object, api::SamplingRequest* sampling) {
  sample::SamplingOptions& options = sampling->options;
  PENSTOCK_RETURN_IF_ERROR(ParseOptionalNumber(object, "temperature", &sampling->temperature));
  PENSTOCK_RETURN_IF_ERROR(ParseOptionalNumber(object, "top_p", &sampling->top_p));
  PENSTOCK_RETURN_IF_ERROR(ParseOptionalNumber(object, "min_p", &sampling->min_p));
  PENSTOCK_RETURN_IF_ERROR(
      ParseOptionalNumber(object, "repetition_penalty", &sampling->repetition_penalty));
  constexpr int64_t kIntMin = std::numeric_limits<int32_t>::min();
  constexpr int64_t kIntMax = std::numeric_limits<int32_t>::max();
  if (object.Has("top_k")) {
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t top_k, object.GetInt("top_k", kIntMin, kIntMax));
    sampling->top_k = static_cast<int32_t>(top_k);
  }
  for (const auto& [key, to] : {std::pair("presence_penalty", &options.presence_penalty),
                                std::pair("frequency_penalty", &options.frequency_penalty)}) {
    std::optional<float> number;
    PENSTOCK_RETURN_IF_ERROR(ParseOptionalNumber(object, key, &number));
    if (number) *to = *number;
  }
  if (object.Has("seed")) {
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t seed,
                              object.GetInt("seed", std::numeric_limits<int64_t>::min(),
                                            std::numeric_limits<int64_t>::max()));
    options.seed = static_cast<uint64_t>(seed);
  }
  PENSTOCK_RETURN_IF_ERROR(ParseStop(object, "stop", &options.stop));
  PENSTOCK_ASSIGN_OR_RETURN(options.include_stop,
                            object.GetBoolOr("include_stop_str_in_output", false));
  PENSTOCK_ASSIGN_OR_RETURN(options.ignore_eos, object.GetBoolOr("ignore_eos", false));
  PENSTOCK_RETURN_IF_ERROR(ParseStopIds(object, &options.stop_token_ids));
  if (object.Has("min_tokens")) {
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t least, object.GetInt("min_tokens", 0, kIntMax));
    options.min_tokens = static_cast<int32_t>(least);
  }
  return ParseBiases(object, &options.logit_bias);
}

Status CheckSampling(const api::SamplingRequest& sampling) {
  return sampling.With({}).Check(std::numeric_limits<int32_t>::max());
}

Status RefuseFields(const JsonObject& object, std::span<const RefusedField> fields) {
  for (const RefusedField& field : fields) {
    const auto value = object.Find(field.name);
    if (!value || !AsksForSomething(*value)) continue;
    const std::string path = object.PathOf(field.name);
    const std::string why = *field.why == '\0' ? "" : std::string(": ") + field.why;
    return Status::InvalidArgument("'" + path + "' is not supported" + why, path);
  }
  return Status::Ok();
}

}  // namespace penstock::dialects
