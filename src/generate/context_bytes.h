// Bytes that the context of a decoder takes, before it is loaded.
#pragma once

#include <cstdint>

#include "families/decoder_config.h"
#include "numbers/dtype.h"

namespace penstock::generate {

// Of keys and values of a token in one layer.
int64_t KvBytesPerLayer(const families::DecoderConfig& config, numbers::DType cache_type);

// Of keys, values and rotary tables. Layers with a window keep its tokens and those of a step.
class ContextBytes {
 public:
  ContextBytes(const families::DecoderConfig& config, numbers::DType cache_type);

  double Of(int64_t tokens) const;
  // The most tokens that fit in `room` bytes, `most` at most.
  int64_t Fit(double room, int64_t most) const;

 private:
  double token_ = 0;           // of rotary tables and of layers that see everything
  double windowed_token_ = 0;  // of the others
  double kept_ = 0;            // the tokens that these keep
};

}  // namespace penstock::generate
