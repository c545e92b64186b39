// The parts of an EncoderEngine whose model is a decoder that embeds or scores: its tokenizer,
// which appends the tokens that the model expects after a text; how the two texts of a pair become
// one; and runners over its steps.
#pragma once

#include "base/status.h"
#include "engine/encoder_engine.h"
#include "program/backend.h"

namespace penstock::engine {

// `parts` has the folder, of a decoder, with its pooling. Sets the tokenizer, the runners and what
// is known of the model; folder.pair_template is that of a chat template, if there is one. Errors
// name the file, tensor or setting.
Status LoadDecoderParts(const EncoderEngineOptions& options, program::Backend* backend,
                        EncoderParts* parts);

}  // namespace penstock::engine
