// How rotary embeddings are scaled: from the rope_scaling or rope_parameters of a config.json, and
// the formulas that both formats share.
//
// Names and formulas: huggingface/transformers, modeling_rope_utils.py.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "families/decoder_config.h"
#include "json/json.h"

namespace penstock::families {

inline constexpr double kRopeThetaMax = 1e12;
inline constexpr double kRopeFactorMax = 1e6;

// What a config.json has outside of its rope_scaling.
struct RopeSurroundings {
  double theta = 0;
  int32_t rope_size = 0;
  int32_t positions = 0;           // max_position_embeddings
  int32_t original_positions = 0;  // original_max_position_embeddings; 0: not there
  bool yarn_is_longrope = false;   // phi3's older files say "su" or "yarn"
};

// kUnsupported: the kind of scaling is none of RopeScalingKind; the message names it.
Expected<RopeScaling> ReadRopeScaling(const JsonObject& rope, const RopeSurroundings& around);

// What the frequencies are divided by: 1 for the high ones, `factor` for the low ones, in between
// for those whose wavelength is between original / high and original / low.
std::vector<float> Llama3Factors(double theta, int32_t rope_size, double factor, double low,
                                 double high, double original);

// 1 for a factor of 1, growing with its logarithm.
double YarnAttentionFactor(double factor, double mscale);
double LongropeAttentionFactor(double factor, double original);

// Tokens that a model with YaRN is made for, which is often more than its files name.
int32_t ContextWithYarn(const RopeScaling& scaling, int32_t context);

}  // namespace penstock::families
