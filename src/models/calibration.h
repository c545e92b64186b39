// What int8 wants to know of a model's activations: how large each column of a product's input
// gets. A few columns of a norm's output are many times larger than the rest and would cost them
// their precision; part of their size is moved to the weights (Xiao et al., "SmoothQuant", 2022).
//
// Measured while the model loads, a layer at a time, on the layers packed so far: nothing is held
// twice. The texts are made up, tokens drawn from all of the vocabulary: what makes a column large
// lies in the weights (MiniLM-L6: as near to f32 as with maxima of real texts). Always the same
// ones, so a model has the same bits each time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/forward_pass.h"
#include "models/weights.h"
#include "tensor/packed_batch.h"

namespace penstock {

// sqrt(maxima / root mean square of the column's weights), 1 on (geometric) average, within
// [kColumnFactorMin, kColumnFactorMax]; 1 for a column without a maximum, or with one that is not
// finite, on either side. maxima: [in]; weight: [rows, in].
std::vector<float> ColumnFactors(std::span<const float> maxima, std::span<const float> weight);

// A column that is small here may be larger in another text; one that is large stays so.
constexpr float kColumnFactorMin = 0.125f;
constexpr float kColumnFactorMax = 64;

// For each layer in turn, the three steps in this order.
class Calibration {
 public:
  // `weights`, which has all but its layers and must outlive this, takes texts of up to
  // `max_tokens`.
  Calibration(const EncoderWeights& weights, int32_t max_tokens);

  // The largest |x| of each column, [hidden], of what qkv reads. `layer` has its norms.
  std::vector<float> AttentionMaxima(const EncoderLayer& layer);
  // The same of what ff_in reads. `layer` has its attention's products too.
  std::vector<float> FeedForwardMaxima(const EncoderLayer& layer);
  // `layer` is complete.
  void EndLayer(const EncoderLayer& layer);

 private:
  std::vector<float> Maxima(const float* x) const;

  const EncoderWeights& weights_;
  std::vector<int32_t> ids_;
  std::vector<int32_t> types_;
  std::vector<int32_t> offsets_{0};
  PackedBatch batch_;
  Workspace workspace_;
  const float* attention_input_ = nullptr;
};

}  // namespace penstock
