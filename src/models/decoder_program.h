// The program of a decoder: what its configuration and tensors say, written down once for a
// backend.
#pragma once

#include "families/decoder_config.h"
#include "families/decoder_files.h"
#include "models/decoder_weights.h"
#include "program/program.h"

namespace penstock::models {

// Ends in logits, or with kEmbed in states. The weights must outlive it.
program::Program DecoderProgram(const families::DecoderConfig& config,
                                const DecoderWeights& weights, families::DecoderUse use);

}  // namespace penstock::models
