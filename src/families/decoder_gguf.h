// What the readers of a decoder's GGUF metadata share.
#pragma once

#include "base/status.h"
#include "families/architecture_keys.h"
#include "families/decoder_readers.h"

namespace penstock::families {

// What the reader hands from one setting to the next.
struct GgufSource {
  const files::TensorStore& store;
  const DecoderFamily& family;
  ArchitectureKeys keys;
};

// After the layers, whose windows it asks for. The context becomes longer with YaRN.
Status ReadGgufRope(const GgufSource& from, DecoderConfig* out);

}  // namespace penstock::families
