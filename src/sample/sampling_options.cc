#include "sample/sampling_options.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "sample/stop_strings.h"

namespace penstock::sample {
namespace {

// 0.7 and not the 0.699999988 that the float is.
std::string NumberText(float number) {
  char text[32];
  return {text, std::to_chars(text, std::end(text), number).ptr};
}

Status CheckRange(const char* field, float value, float min, float max) {
  if (value >= min && value <= max) return Status::Ok();  // false for NaN
  return Status::InvalidArgument("'" + std::string(field) + "' must be between " + NumberText(min) +
                                     " and " + NumberText(max) + ", is " + NumberText(value),
                                 field);
}

Status CheckInt(const std::string& field, int64_t value, int64_t min, int64_t max) {
  if (value >= min && value <= max) return Status::Ok();
  return Status::InvalidArgument("'" + field + "' must be between " + std::to_string(min) +
                                     " and " + std::to_string(max) + ", is " +
                                     std::to_string(value),
                                 field);
}

Status CheckCount(const char* field, size_t count, size_t max) {
  if (count <= max) return Status::Ok();
  return Status::InvalidArgument("'" + std::string(field) + "' has " + std::to_string(count) +
                                     " entries; at most " + std::to_string(max) + " are allowed",
                                 field);
}

Status CheckBias(const std::vector<LogitBias>& biases, int32_t vocabulary) {
  PENSTOCK_RETURN_IF_ERROR(CheckCount("logit_bias", biases.size(), kLogitBiasesMax));
  std::vector<int32_t> ids;
  for (const LogitBias& entry : biases) {
    PENSTOCK_RETURN_IF_ERROR(CheckInt("logit_bias", entry.id, 0, vocabulary - 1));
    const std::string field = "logit_bias." + std::to_string(entry.id);
    PENSTOCK_RETURN_IF_ERROR(CheckRange(field.c_str(), entry.bias, -kLogitBiasMax, kLogitBiasMax));
    ids.push_back(entry.id);
  }
  std::sort(ids.begin(), ids.end());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  if (twice == ids.end()) return Status::Ok();
  return Status::InvalidArgument(
      "'logit_bias' names token " + std::to_string(*twice) + " more than once", "logit_bias");
}

}  // namespace

int64_t SamplingOptions::HeapBytes() const {
  constexpr size_t kBlock = 2 * sizeof(void*);  // what the heap adds
  size_t bytes = 3 * kBlock + logit_bias.size() * sizeof(LogitBias) +
                 stop_token_ids.size() * sizeof(int32_t) + stop.size() * sizeof(std::string);
  for (const std::string& one : stop) bytes += one.size() + kBlock;
  return static_cast<int64_t>(bytes);
}

Status SamplingOptions::Check(int32_t vocabulary) const {
  constexpr int32_t kIntMax = INT32_MAX;
  PENSTOCK_RETURN_IF_ERROR(CheckRange("temperature", temperature, 0, kTemperatureMax));
  PENSTOCK_RETURN_IF_ERROR(CheckInt("top_k", top_k, -1, kIntMax));
  PENSTOCK_RETURN_IF_ERROR(CheckRange("top_p", top_p, 0, 1));
  PENSTOCK_RETURN_IF_ERROR(CheckRange("min_p", min_p, 0, 1));
  PENSTOCK_RETURN_IF_ERROR(CheckRange("repetition_penalty", repetition_penalty,
                                      kRepetitionPenaltyMin, kRepetitionPenaltyMax));
  PENSTOCK_RETURN_IF_ERROR(CheckInt("repetition_window", repetition_window, -1, kIntMax));
  PENSTOCK_RETURN_IF_ERROR(
      CheckRange("presence_penalty", presence_penalty, -kPenaltyMax, kPenaltyMax));
  PENSTOCK_RETURN_IF_ERROR(
      CheckRange("frequency_penalty", frequency_penalty, -kPenaltyMax, kPenaltyMax));
  PENSTOCK_RETURN_IF_ERROR(CheckBias(logit_bias, vocabulary));
  PENSTOCK_RETURN_IF_ERROR(CheckStopStrings(stop));
  PENSTOCK_RETURN_IF_ERROR(CheckCount("stop_token_ids", stop_token_ids.size(), kStopTokensMax));
  for (size_t i = 0; i < stop_token_ids.size(); ++i) {
    PENSTOCK_RETURN_IF_ERROR(CheckInt("stop_token_ids[" + std::to_string(i) + "]",
                                      stop_token_ids[i], 0, vocabulary - 1));
  }
  if (max_tokens) PENSTOCK_RETURN_IF_ERROR(CheckInt("max_tokens", *max_tokens, 1, kIntMax));
  PENSTOCK_RETURN_IF_ERROR(CheckInt("min_tokens", min_tokens, 0, kIntMax));
  if (max_tokens && min_tokens > *max_tokens) {
    return Status::InvalidArgument("'min_tokens' is " + std::to_string(min_tokens) +
                                       ", more than the " + std::to_string(*max_tokens) +
                                       " of max_tokens",
                                   "min_tokens");
  }
  return CheckInt("top_logprobs", top_logprobs, 0, kTopLogprobsMax);
}

}  // namespace penstock::sample
