// The programs of an encoder: what its architecture computes, written down once for a backend.
//
// Post-norm models (BERT) norm the sums after attention and after the feed-forward; pre-norm ones
// (ModernBERT) their inputs. If an output needs one token of each sequence (CLS or last-token
// pooling, classifiers), the last layer's attention computes that token alone, and the rest of the
// layer, most of its work, runs once for each sequence.
#pragma once

#include "models/encoder.h"
#include "models/weights.h"
#include "program/program.h"

namespace penstock::models {

// The program of an output that the weights offer. Pooled rows are not normalised, logits are raw.
// The weights must outlive it.
program::Program EncoderProgram(const EncoderWeights& weights, program::EncoderOutput output);

// What follows the layers, of kPooled or kLogits: begins with the last hidden states. Of `weights`
// only hidden, the poolings, dense and head are read.
program::Program HeadProgram(const EncoderWeights& weights, program::EncoderOutput output,
                             int32_t max_length);

// Parts of the model, for calibration while its layers load. All but the first begin with rows of
// hidden states and take sequences of up to `max_length` tokens; results are rows of tokens.
program::Program EmbeddingProgram(const EncoderWeights& weights, int32_t max_length);
program::Program NormProgram(const EncoderWeights& weights, const program::Norm& norm,
                             int32_t max_length);
// x plus attention, normed in post-norm models. `layer` has its norms and attention's weights.
program::Program AttentionProgram(const EncoderWeights& weights, const EncoderLayer& layer,
                                  int32_t max_length);
// x plus the feed-forward, normed in post-norm models.
program::Program FeedForwardProgram(const EncoderWeights& weights, const EncoderLayer& layer,
                                    int32_t max_length);

}  // namespace penstock::models
