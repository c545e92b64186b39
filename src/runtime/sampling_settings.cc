#include "runtime/sampling_settings.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

namespace penstock::runtime {
namespace {

template <typename T>
Expected<T> ReadNumber(const std::string& text, T least, T most) {
  T number{};
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  // Not so for NaN.
  const bool fits = number >= least && number <= most;
  if (read.ec == std::errc() && read.ptr == end && fits) return number;
  return Status::InvalidArgument(
      fmt::format("'{:.100}' is not a number from {} to {}", text, least, most));
}

template <std::optional<float> sample::GenerationDefaults::*field>
Status SetFloat(const std::string& value, float least, float most, registry::ModelSpec* spec) {
  PENSTOCK_ASSIGN_OR_RETURN(spec->options.decoder.sampling.*field, ReadNumber(value, least, most));
  return Status::Ok();
}

constexpr int32_t kIntMax = std::numeric_limits<int32_t>::max();

constexpr SamplingSetting kSettings[] = {
    {"temperature",
     "Temperature of requests that give none, in place of what the model's makers recommend (0.8 "
     "where they do not say).",
     &ModelOptions::temperatures,
     [](const std::string& value, registry::ModelSpec* spec) {
       return SetFloat<&sample::GenerationDefaults::temperature>(value, 0, sample::kTemperatureMax,
                                                                 spec);
     }},
    {"top-k", "The same of top_k (40 where neither this nor the makers say).",
     &ModelOptions::top_ks,
     [](const std::string& value, registry::ModelSpec* spec) -> Status {
       PENSTOCK_ASSIGN_OR_RETURN(spec->options.decoder.sampling.top_k,
                                 ReadNumber<int32_t>(value, -1, kIntMax));
       return Status::Ok();
     }},
    {"top-p", "The same of top_p (0.95).", &ModelOptions::top_ps,
     [](const std::string& value, registry::ModelSpec* spec) {
       return SetFloat<&sample::GenerationDefaults::top_p>(value, 0, 1, spec);
     }},
    {"min-p", "The same of min_p (0.05).", &ModelOptions::min_ps,
     [](const std::string& value, registry::ModelSpec* spec) {
       return SetFloat<&sample::GenerationDefaults::min_p>(value, 0, 1, spec);
     }},
    {"repetition-penalty", "The same of repetition_penalty (1).",
     &ModelOptions::repetition_penalties,
     [](const std::string& value, registry::ModelSpec* spec) {
       return SetFloat<&sample::GenerationDefaults::repetition_penalty>(
           value, sample::kRepetitionPenaltyMin, sample::kRepetitionPenaltyMax, spec);
     }},
    {"max-tokens-default",
     "Most tokens of a chat's answer where the request gives no bound; 0 = what the context "
     "leaves. Without this flag 4096, and 512 of the demonstration model.",
     &ModelOptions::max_tokens_defaults,
     [](const std::string& value, registry::ModelSpec* spec) -> Status {
       PENSTOCK_ASSIGN_OR_RETURN(spec->options.decoder.sampling.max_new_tokens,
                                 ReadNumber<int32_t>(value, 0, kIntMax));
       return Status::Ok();
     }},
};

}  // namespace

std::span<const SamplingSetting> SamplingSettings() { return kSettings; }

}  // namespace penstock::runtime
