// What a request may ask of the choice of tokens. Names, ranges and defaults are those of the
// OpenAI API; what that lacks (top_k, min_p, repetition_penalty, ignore_eos) is as in the
// generation_config.json of transformers and in the servers that took those names over. The order
// in which settings act is in sample/sampler.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace penstock::sample {

inline constexpr float kTemperatureMax = 2.0f;
// A temperature below this is greedy, as 0 is: scaled logits would leave the range of a float.
inline constexpr float kGreedyBelow = 1e-5f;
inline constexpr float kRepetitionPenaltyMin = 0.01f, kRepetitionPenaltyMax = 100.0f;
inline constexpr float kPenaltyMax = 2.0f;  // of presence and frequency, either sign
inline constexpr float kLogitBiasMax = 100.0f;
inline constexpr int32_t kTopLogprobsMax = 20;
inline constexpr size_t kLogitBiasesMax = 1024;
inline constexpr size_t kStopStringsMax = 32;
inline constexpr size_t kStopStringBytesMax = 1024;
inline constexpr size_t kStopTokensMax = 64;

struct LogitBias {
  int32_t id = 0;
  float bias = 0;
};

struct SamplingOptions {
  // 0 (or below kGreedyBelow): greedy, the token of the largest logit; else logits are divided by
  // it. 0 to 2.
  float temperature = 1;
  // Only the k largest are kept. 0 or -1: off; a k above the vocabulary is as good as off.
  int32_t top_k = 0;
  // Only the fewest, largest first, whose probabilities together reach this are kept, at least one.
  // 0 to 1; 1: off.
  float top_p = 1;
  // Only those at least this times as probable as the most probable are kept. 0 to 1; 0: off.
  float min_p = 0;
  // For each token that occurs in the window, prompt included, a positive logit is divided by this
  // and another multiplied (CTRL, arXiv 1909.05858, as transformers does). 0.01 to 100; 1: off.
  float repetition_penalty = 1;
  // How many of the last tokens of prompt and generated text count; -1: all; 0: none.
  int32_t repetition_window = -1;
  // Taken off the logit of each generated token; and of each as often as it was generated.
  // -2 to 2; 0: off.
  float presence_penalty = 0;
  float frequency_penalty = 0;
  // Added to logits; -100 to 100. At most kLogitBiasesMax, each id once.
  std::vector<LogitBias> logit_bias;
  // Absent: one is drawn, and Sampler::seed() tells it.
  std::optional<uint64_t> seed;

  // Generation ends with any of these in the text: at most kStopStringsMax, each UTF-8 of 1 to
  // kStopStringBytesMax bytes. The text given out ends before the stop string, or with it.
  std::vector<std::string> stop;
  bool include_stop = false;
  // Generation ends with any of these; at most kStopTokensMax. The model's own ends count besides,
  // unless ignore_eos.
  std::vector<int32_t> stop_token_ids;
  bool ignore_eos = false;
  // At least 1. Absent: as many as the context holds.
  std::optional<int32_t> max_tokens;
  // The generation does not end before it has this number of tokens: until then end tokens have no
  // probability, and stop strings are not looked for. 0 to max_tokens.
  int32_t min_tokens = 0;

  // The log-probability of each token, and the most probable `top_logprobs` (0 to 20) beside it.
  bool logprobs = false;
  int32_t top_logprobs = 0;

  bool greedy() const { return temperature < kGreedyBelow; }
  bool penalizes() const {
    return (repetition_penalty != 1 && repetition_window != 0) || presence_penalty != 0 ||
           frequency_penalty != 0;
  }

  // What a copy of it allocates, about.
  int64_t HeapBytes() const;
  // kInvalidArgument that names the first field at fault and its range. Token ids must be below
  // `vocabulary`.
  Status Check(int32_t vocabulary) const;
};

}  // namespace penstock::sample
