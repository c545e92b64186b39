// The fields of sampling, which the APIs for text share. Pure functions; errors name the field as
// the client wrote it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/generate_types.h"
#include "base/status.h"
#include "json/json.h"

namespace penstock::dialects {

// temperature, top_p, top_k, min_p, repetition_penalty, presence_penalty, frequency_penalty, seed,
// stop (a string or strings), include_stop_str_in_output, stop_token_ids, ignore_eos, min_tokens,
// logit_bias (ids as keys). Their ranges are those of SamplingOptions.
Status ParseSampling(const JsonObject& object, api::SamplingRequest* sampling);
// A string, or an array of them.
Status ParseStop(const JsonObject& object, std::string_view key, std::vector<std::string>* stop);
// Checks what ParseSampling and the caller have read.
Status CheckSampling(const api::SamplingRequest& sampling);
// An absent or null field leaves *number as it is.
Status ParseOptionalNumber(const JsonObject& object, std::string_view key,
                           std::optional<float>* number);

struct RefusedField {
  const char* name;
  const char* why;  // "" where there is nothing to say
};
// kInvalidArgument for the first of `fields` that asks for something: that is there and not null,
// false, 0, or empty.
Status RefuseFields(const JsonObject& object, std::span<const RefusedField> fields);

}  // namespace penstock::dialects
