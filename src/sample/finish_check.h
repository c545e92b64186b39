// When a generation ends by its tokens: an end token, or the number of tokens asked for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sample/sampling_options.h"

namespace penstock::sample {

enum class Finish {
  kNone,
  kStopToken,  // the token is an end: it is not part of the text
  kLength,     // the token is the last that was asked for, and part of the text
};

class FinishCheck {
 public:
  // `model_ends`: the ends the model names; not counted with options.ignore_eos, so that the text
  // goes on after them.
  FinishCheck(const SamplingOptions& options, std::span<const int32_t> model_ends);

  // After `generated` tokens, `id` the last of them. An end comes before the length.
  Finish After(int32_t id, int64_t generated) const;

  // Whether a text of that many tokens is as long as was asked for.
  bool IsLength(int64_t generated) const { return generated >= tokens_max_; }

  // The end tokens, ascending.
  std::span<const int32_t> ends() const { return ends_; }

 private:
  std::vector<int32_t> ends_;  // ascending
  int64_t tokens_max_;
};

}  // namespace penstock::sample
