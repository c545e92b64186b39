#include "sample/generation_defaults.h"

#include <algorithm>
#include <utility>

#include "base/printable.h"
#include "json/json.h"
#include "sample/stop_strings.h"

namespace penstock::sample {
namespace {

// Settings that Penstock does not implement, and the value, if any, at which each does nothing.
struct Inactive {
  const char* name;
  std::optional<double> value;
};
constexpr Inactive kUnsupportedFields[] = {
    {"num_beams", 1},
    {"num_beam_groups", 1},
    {"num_return_sequences", 1},
    {"penalty_alpha", 0},
    {"typical_p", 1},
    {"epsilon_cutoff", 0},
    {"eta_cutoff", 0},
    {"top_h", {}},
    {"diversity_penalty", 0},
    {"encoder_repetition_penalty", 1},
    {"no_repeat_ngram_size", 0},
    {"encoder_no_repeat_ngram_size", 0},
    {"guidance_scale", 1},
    {"min_length", 0},
    {"min_new_tokens", 0},
    {"bad_words_ids", {}},
    {"force_words_ids", {}},
    {"constraints", {}},
    {"sequence_bias", {}},
    {"suppress_tokens", {}},
    {"begin_suppress_tokens", {}},
    {"forced_bos_token_id", {}},
    {"forced_eos_token_id", {}},
    {"forced_decoder_ids", {}},
    {"exponential_decay_length_penalty", {}},
    {"watermarking_config", {}},
    {"dola_layers", {}},
};

Status RefuseUnsupported(const JsonObject& config) {
  for (const Inactive& field : kUnsupportedFields) {
    const auto value = config.Find(field.name);
    if (!value) continue;
    double number = 0;
    if (field.value && value->Get(&number) && number == *field.value) continue;
    if (JsonArray array; value->Get(&array) && array.empty()) continue;
    return Status::Unsupported(std::string("'") + field.name + "' is set, which is not supported",
                               field.name);
  }
  return Status::Ok();
}

Status ReadFloat(const JsonObject& config, const char* name, double min, double max,
                 std::optional<float>* out) {
  if (!config.Has(name)) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(const double value, config.GetNumber(name, min, max));
  *out = static_cast<float>(value);
  return Status::Ok();
}

Status ReadInt(const JsonObject& config, const char* name, int64_t min, int64_t max,
               std::optional<int32_t>* out) {
  if (!config.Has(name)) return Status::Ok();
  PENSTOCK_ASSIGN_OR_RETURN(const int64_t value, config.GetInt(name, min, max));
  *out = static_cast<int32_t>(value);
  return Status::Ok();
}

Status ReadEos(const JsonObject& config, int32_t vocabulary, std::vector<int32_t>* out) {
  constexpr const char* kName = "eos_token_id";
  const auto value = config.Find(kName);
  if (!value) return Status::Ok();
  if (!value->is_array()) {
    PENSTOCK_ASSIGN_OR_RETURN(const int64_t id, config.GetInt(kName, 0, vocabulary - 1));
    out->push_back(static_cast<int32_t>(id));
    return Status::Ok();
  }
  PENSTOCK_ASSIGN_OR_RETURN(const JsonArray ids, config.GetArray(kName, kEosTokensMax));
  size_t index = 0;
  for (const JsonElement element : ids) {
    const std::string field = std::string(kName) + "[" + std::to_string(index++) + "]";
    int64_t id = 0;
    if (!element.Get(&id)) {
      return Status::InvalidArgument(
          "'" + field + "' must be an integer, is " + Printable(element.Text(), 64), field);
    }
    if (id < 0 || id >= vocabulary) {
      return Status::InvalidArgument("'" + field + "' must be between 0 and " +
                                         std::to_string(vocabulary - 1) + ", is " +
                                         std::to_string(id),
                                     field);
    }
    out->push_back(static_cast<int32_t>(id));
  }
  std::sort(out->begin(), out->end());
  out->erase(std::unique(out->begin(), out->end()), out->end());
  return Status::Ok();
}

// A string or a list of them.
Status ReadStopStrings(const JsonObject& config, std::vector<std::string>* out) {
  constexpr const char* kName = "stop_strings";
  const auto value = config.Find(kName);
  if (!value) return Status::Ok();
  if (value->is_string()) {
    PENSTOCK_ASSIGN_OR_RETURN(std::string stop, config.GetString(kName));
    out->push_back(std::move(stop));
  } else {
    PENSTOCK_ASSIGN_OR_RETURN(*out, config.GetStringsOrEmpty(kName, kStopStringsMax));
  }
  const Status status = CheckStopStrings(*out);
  if (status.ok()) return status;
  return Status::InvalidArgument(std::string("'") + kName + "': " + status.message(), kName);
}

Expected<GenerationDefaults> Read(const JsonDocument& document, int32_t vocabulary) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject config, document.Object());
  GenerationDefaults out;
  PENSTOCK_RETURN_IF_ERROR(RefuseUnsupported(config));
  if (config.Has("do_sample")) {
    PENSTOCK_ASSIGN_OR_RETURN(const bool do_sample, config.GetBool("do_sample"));
    out.do_sample = do_sample;
  }
  PENSTOCK_RETURN_IF_ERROR(
      ReadFloat(config, "temperature", 0, static_cast<double>(kTemperatureMax), &out.temperature));
  PENSTOCK_RETURN_IF_ERROR(ReadFloat(config, "top_p", 0, 1, &out.top_p));
  PENSTOCK_RETURN_IF_ERROR(ReadFloat(config, "min_p", 0, 1, &out.min_p));
  PENSTOCK_RETURN_IF_ERROR(
      ReadFloat(config, "repetition_penalty", static_cast<double>(kRepetitionPenaltyMin),
                static_cast<double>(kRepetitionPenaltyMax), &out.repetition_penalty));
  PENSTOCK_RETURN_IF_ERROR(ReadInt(config, "top_k", -1, INT32_MAX, &out.top_k));
  PENSTOCK_RETURN_IF_ERROR(ReadInt(config, "max_new_tokens", 1, INT32_MAX, &out.max_new_tokens));
  PENSTOCK_RETURN_IF_ERROR(ReadEos(config, vocabulary, &out.eos_token_ids));
  PENSTOCK_RETURN_IF_ERROR(ReadStopStrings(config, &out.stop_strings));
  PENSTOCK_RETURN_IF_ERROR(ReadInt(config, "bos_token_id", 0, vocabulary - 1, &out.bos_token_id));
  // Some files name -1 for "none".
  PENSTOCK_RETURN_IF_ERROR(ReadInt(config, "pad_token_id", -1, vocabulary - 1, &out.pad_token_id));
  return out;
}

}  // namespace

Expected<GenerationDefaults> GenerationDefaults::FromJson(std::string_view text,
                                                          int32_t vocabulary) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document,
                            JsonDocument::Parse(text, kGenerationConfigBytesMax));
  return Read(document, vocabulary);
}

Expected<GenerationDefaults> GenerationDefaults::FromFile(const std::string& path,
                                                          int32_t vocabulary) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document,
                            JsonDocument::ParseFile(path, kGenerationConfigBytesMax));
  auto read = Read(document, vocabulary);
  if (!read.ok()) return read.status().Annotate(path);
  return read;
}

void GenerationDefaults::ApplyTo(SamplingOptions* options) const {
  if (temperature) options->temperature = *temperature;
  if (do_sample && !*do_sample) options->temperature = 0;
  if (top_k) options->top_k = *top_k;
  if (top_p) options->top_p = *top_p;
  if (min_p) options->min_p = *min_p;
  if (repetition_penalty) options->repetition_penalty = *repetition_penalty;
  if (max_new_tokens) options->max_tokens = *max_new_tokens;
  if (!stop_strings.empty()) options->stop = stop_strings;
}

}  // namespace penstock::sample
