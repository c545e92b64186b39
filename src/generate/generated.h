// What a generation gives: tokens, and why it ended.
#pragma once

#include <cstdint>
#include <vector>

#include "sample/sampler.h"

namespace penstock::generate {

enum class FinishReason {
  kStop,     // an end token or a stop string
  kLength,   // as many tokens as were asked for
  kContext,  // the context is full
  kCaller,   // the caller said so
};
const char* FinishReasonName(FinishReason reason);  // "stop", "length", "context", "caller"

struct GeneratedToken {
  int32_t id = 0;
  float logprob = 0;                      // where SamplingOptions::logprobs
  std::vector<sample::TokenLogprob> top;  // the same
};

}  // namespace penstock::generate
