// The angles of rotary position embeddings: RoFormer (arxiv.org/abs/2104.09864), and what stretches
// them beyond the context of the training.
#pragma once

#include <cstdint>
#include <vector>

#include "families/decoder_config.h"

namespace penstock::models {

struct RotaryAngles {
  std::vector<double> frequencies;  // [rope_size / 2], radians a position
  double factor = 1;                // of cosine and sine
};

// The tokens of a sequence beyond which longrope takes its long factors, for all positions of it;
// 0: no sequence of `context` tokens needs them, or they are the short ones.
int32_t RopeSwitchOf(const families::DecoderConfig& config, int32_t context);

// `long_factors`: of sequences longer than the switch.
RotaryAngles RotaryAnglesOf(const families::DecoderConfig& config,
                            const families::DecoderLayerConfig& layer, bool long_factors = false);

}  // namespace penstock::models
