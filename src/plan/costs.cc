#include "plan/costs.h"

#include <type_traits>
#include <utility>

#include "json/json.h"

namespace penstock::plan {
namespace {

constexpr int kFormat = 1;
constexpr int64_t kFileBytesMax = 1 << 20;
constexpr double kSecondsMax = 1e6;

// Calls visit(key, value) for every number of the costs, to write and to read them.
template <typename Costs, typename Visit>
void ForEachNumber(Costs& costs, const Visit& visit) requires requires {
  costs.batch;
}
{
  visit("fixed_s", costs.batch.fixed_s);
  visit("token_s", costs.batch.token_s);
  visit("work_s", costs.batch.work_s);
  visit("gap_s", costs.gap_s);
  visit("cold_s", costs.cold_s);
  visit("cold_token_s", costs.cold_token_s);
  visit("noise", costs.noise);
  visit("request_s", costs.request_s);
  visit("outside_s", costs.outside_s);
  visit("outside_busy_s", costs.outside_busy_s);
  visit("outside_token_s", costs.outside_token_s);
  visit("added_tokens", costs.added_tokens);
  visit("word_tokens", costs.word_tokens);
  visit("batch_tokens", costs.batch_tokens);
  visit("length_max", costs.length_max);
}
template <typename Costs, typename Visit>
void ForEachNumber(Costs& costs, const Visit& visit) requires requires {
  costs.step;
}
{
  visit("one_s", costs.step.one_s);
  visit("few_s", costs.step.few_s);
  visit("fixed_s", costs.step.fixed_s);
  visit("row_s", costs.step.row_s);
  visit("work_s", costs.step.work_s);
  visit("pick_s", costs.pick_s);
  visit("outside_s", costs.outside_s);
  visit("context", costs.context);
  visit("sequences", costs.sequences);
  visit("cache_blocks", costs.cache_blocks);
  visit("template_tokens", costs.template_tokens);
}

template <typename Costs>
void Write(const char* key, const std::optional<Costs>& costs, JsonWriter* json) {
  if (!costs) return;
  json->Key(key).BeginObject();
  ForEachNumber(*costs, [json](const char* name, auto value) { json->Field(name, value); });
  json->EndObject();
}

template <typename Costs>
Status Read(const JsonObject& document, const char* key, std::optional<Costs>* to) {
  if (!document.Has(key)) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject object, document.GetObjectOrEmpty(key));
  Costs costs;
  Status status;
  ForEachNumber(costs, [&](const char* name, auto& value) {
    if (!status.ok()) return;
    auto read = object.GetNumber(name);
    using Value = std::remove_reference_t<decltype(value)>;
    if (!read.ok()) {
      status = read.status();
    } else if (!(*read >= 0 && *read <= kSecondsMax * (std::is_integral_v<Value> ? 1000 : 1))) {
      status = Status::InvalidArgument(std::string(key) + "." + name + " is out of range", name);
    } else {
      value = static_cast<Value>(*read);
    }
  });
  if (status.ok()) *to = costs;
  return status;
}

}  // namespace

EncoderCosts Slower(const EncoderCosts& costs, double factor) {
  EncoderCosts slower = costs;
  for (double* seconds : {&slower.batch.fixed_s, &slower.batch.token_s, &slower.batch.work_s,
                          &slower.gap_s, &slower.cold_s, &slower.cold_token_s, &slower.request_s}) {
    *seconds *= factor;
  }
  return slower;
}

DecoderCosts Slower(const DecoderCosts& costs, double factor) {
  DecoderCosts slower = costs;
  for (double* seconds : {&slower.step.one_s, &slower.step.few_s, &slower.step.fixed_s,
                          &slower.step.row_s, &slower.step.work_s, &slower.pick_s}) {
    *seconds *= factor;
  }
  return slower;
}

std::string Costs::ToJson() const {
  std::string text;
  JsonWriter json(&text);
  json.BeginObject().Field("format", kFormat).Field("model", model).Field("machine", machine);
  json.Field("version", version);
  Write("encoder", encoder, &json);
  Write("decoder", decoder, &json);
  json.EndObject();
  return text + "\n";
}

namespace {

Expected<Costs> Read(const JsonDocument& document) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject object, document.Object());
  PENSTOCK_RETURN_IF_ERROR(object.GetInt("format", kFormat, kFormat).status());
  Costs costs;
  PENSTOCK_ASSIGN_OR_RETURN(costs.model, object.GetString("model"));
  PENSTOCK_ASSIGN_OR_RETURN(costs.machine, object.GetString("machine"));
  PENSTOCK_ASSIGN_OR_RETURN(costs.version, object.GetString("version"));
  PENSTOCK_RETURN_IF_ERROR(Read(object, "encoder", &costs.encoder));
  PENSTOCK_RETURN_IF_ERROR(Read(object, "decoder", &costs.decoder));
  if (costs.encoder.has_value() == costs.decoder.has_value()) {
    return Status::InvalidArgument("there must be one of 'encoder' and 'decoder'", "encoder");
  }
  if (costs.encoder && !costs.encoder->batch.known()) {
    return Status::InvalidArgument("encoder.token_s must be more than 0", "encoder.token_s");
  }
  if (costs.encoder && costs.encoder->word_tokens <= 0) {
    return Status::InvalidArgument("encoder.word_tokens must be more than 0",
                                   "encoder.word_tokens");
  }
  if (costs.encoder && (costs.encoder->batch_tokens < 1 || costs.encoder->length_max < 1)) {
    return Status::InvalidArgument("encoder.batch_tokens and length_max must be at least 1",
                                   "encoder.batch_tokens");
  }
  if (costs.decoder && (!costs.decoder->step.known() || costs.decoder->step.one_s <= 0)) {
    return Status::InvalidArgument("decoder.one_s and row_s must be more than 0", "decoder.row_s");
  }
  if (costs.decoder && (costs.decoder->context < 3 || costs.decoder->sequences < 1 ||
                        costs.decoder->cache_blocks < 1)) {
    return Status::InvalidArgument(
        "decoder.context, sequences and cache_blocks must be at least 3, 1 and 1",
        "decoder.context");
  }
  return costs;
}

}  // namespace

Expected<Costs> Costs::FromJson(const std::string& text) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(text));
  return Read(document);
}

Expected<Costs> Costs::ReadFile(const std::string& path) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document,
                            JsonDocument::ParseFile(path, kFileBytesMax));
  auto costs = Read(document);
  if (costs.ok()) return costs;
  return Status(costs.status().code(), path + ": " + costs.status().message());
}

}  // namespace penstock::plan
