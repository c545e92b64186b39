// The angles of rotary position embeddings: RoFormer (arxiv.org/abs/2104.09864), and what stretches
// them beyond the context of the training.
#pragma once

#include <cstdint>
#include <vector>

#include "formats/decoder_config.h"

namespace penstock {

struct RotaryAngles {
  std::vector<double> frequencies;  // [rope_size / 2], radians a position
  double factor = 1;                // of cosine and sine
};

// `context`: of the longest sequence that will be run. It selects longrope's factors: the short
// ones up to the original context, else the long ones for all positions, so that what is cached
// stays valid as a text grows.
RotaryAngles RotaryAnglesOf(const DecoderConfig& config, const DecoderLayerConfig& layer,
                            int32_t context);

}  // namespace penstock
