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

namespace penstock {

// The program of an output that the weights offer. Pooled rows are not normalised, logits are raw.
// The weights must outlive it.
Program EncoderProgram(const EncoderWeights& weights, EncoderOutput output);

// What follows the layers, of kPooled or kLogits: begins with the last hidden states. Of `weights`
// only hidden, the poolings, dense and head are read.
Program HeadProgram(const EncoderWeights& weights, EncoderOutput output, int32_t max_length);

// Parts of the model, for calibration while its layers load. All but the first begin with rows of
// hidden states and take sequences of up to `max_length` tokens; results are rows of tokens.
Program EmbeddingProgram(const EncoderWeights& weights, int32_t max_length);
Program NormProgram(const EncoderWeights& weights, const Norm& norm, int32_t max_length);
// x plus attention, normed in post-norm models. `layer` has its norms and attention's weights.
Program AttentionProgram(const EncoderWeights& weights, const EncoderLayer& layer,
                         int32_t max_length);
// x plus the feed-forward, normed in post-norm models.
Program FeedForwardProgram(const EncoderWeights& weights, const EncoderLayer& layer,
                           int32_t max_length);

}  // namespace penstock
