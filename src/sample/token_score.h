// The log-probability of a token that is given, such as a prompt's, and the most probable tokens in
// its place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "sample/sampler.h"

namespace penstock::sample {

// `logits`: with parts and blocks. Puts the `top_count` (0 to kCandidatesMax) most probable tokens
// into *top, in order; the same bits as Sampler gives. kInternal: as Sampler::Sample.
Status ScoreToken(const Logits& logits, int32_t id, size_t top_count, float* logprob,
                  std::vector<TokenLogprob>* top);

}  // namespace penstock::sample
