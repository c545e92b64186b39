// Calibration for int8: the largest |x| of each column of a linear layer's input. A few columns of
// a norm's output are many times larger than the rest and would cost them their precision; part of
// their size is moved to the weights (Xiao et al., "SmoothQuant", 2022).
//
// Measured while the model loads, by programs of half a layer on the layers packed so far: nothing
// is held twice. The texts are random tokens of the whole vocabulary, as the weights decide which
// columns are large (MiniLM-L6: as near to f32 as with maxima of real texts). They are always the
// same, so a model has the same bits each time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "models/weights.h"
#include "program/backend.h"
#include "program/packed_batch.h"
#include "program/program.h"

namespace penstock::models {

// sqrt(maxima / root mean square of the column's weights), 1 on (geometric) average, within
// [kColumnFactorMin, kColumnFactorMax]; 1 for a column without a maximum, or with one that is not
// finite, on either side. maxima: [in]; weight: [rows, in], in parts.
std::vector<float> ColumnFactors(std::span<const float> maxima,
                                 std::span<const program::LinearRows> weight);

// A column that is small here may be larger in another text; one that is large stays so.
constexpr float kColumnFactorMin = 0.125f;
constexpr float kColumnFactorMax = 64;

// For each layer in turn: AttentionMaxima, EndAttention, FeedForwardMaxima, EndLayer. The maxima
// may be left out. Errors: those of ProgramRun::Run.
class Calibration {
 public:
  // `weights` must outlive this and have all but its layers when Start is called; it takes texts of
  // up to `max_tokens`.
  Calibration(const EncoderWeights& weights, int32_t max_tokens);
  // Embeds the texts.
  Status Start();

  // The largest |x| of each column of qkv's input, [hidden]. `layer` has its norms.
  Expected<std::vector<float>> AttentionMaxima(const EncoderLayer& layer);
  // `layer` has its attention's weights too.
  Status EndAttention(const EncoderLayer& layer);
  // The same of ff_in's input.
  Expected<std::vector<float>> FeedForwardMaxima(const EncoderLayer& layer);
  // `layer` is complete.
  Status EndLayer(const EncoderLayer& layer);

 private:
  // Runs a program on the hidden states, to result_.
  Status Run(const program::Program& program);
  // As Run; the result becomes the hidden states.
  Status Advance(const program::Program& program);
  // Maxima of the normed hidden states, or without a norm of the hidden states.
  Expected<std::vector<float>> Maxima(const program::Norm& norm);

  const EncoderWeights& weights_;
  const int32_t length_;  // tokens of a text
  std::vector<int32_t> ids_;
  std::vector<int32_t> offsets_{0};
  std::vector<float> hidden_;  // [tokens, hidden size]: the residual stream
  std::vector<float> result_;
};

}  // namespace penstock::models
