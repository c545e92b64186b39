// Draws from a whole vocabulary where more than kCandidatesMax tokens may be kept.
//
// Top-k, top-p and min-p each keep the first tokens of one order (larger logit, then lower id), so
// together they keep the first N. N is found without sorting the vocabulary: tokens are counted
// into bins by their distance from the largest logit, and only the bin in which the cut falls is
// sorted. The draw then walks the blocks of the row, which skips all blocks whose largest logit is
// cut off.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sample/logit_scan.h"

namespace penstock::sample {

struct RowFilter {
  float temperature = 1;  // above 0
  size_t top_k = 0;       // 0: off
  float top_p = 1;
  float min_p = 0;
};

class RowDraw {
 public:
  // Memory for rows of `vocabulary` logits.
  void Reserve(size_t vocabulary, const RowFilter& filter);

  // The id drawn by `uniform` in [0, 1). `blocks` has the maxima of the row's blocks. Probabilities
  // and sums are exact to about 1e-6 of their value.
  int32_t Draw(std::span<const float> row, std::span<const LogitBlock> blocks,
               const RowFilter& filter, double uniform);

 private:
  struct Bin {
    double sum = 0;
    uint32_t count = 0;
  };
  struct Cut {
    Candidate last;      // the last token that is kept
    float distance_max;  // and none farther from the largest logit than this, by min-p
  };

  float Distance(float logit) const { return (max_ - logit) * inverse_temperature_; }
  double WeightOf(float logit) const;
  // Fills block_sums_ with what the cut leaves; the sum of all.
  double SumBlocks(std::span<const float> row, std::span<const LogitBlock> blocks, const Cut& cut);
  float KeptSum(const float* logits, size_t count, size_t first_id, const Cut& cut) const;
  // A logit that the last token of top-k has at least; and one that the last of top-p has.
  float LowestOfTopK(std::span<const LogitBlock> blocks, size_t top_k);
  float LowestOfTopP(double total, size_t vocabulary, float top_p) const;
  // Fills near_ and bins_ with the tokens whose logit is at least `lowest`.
  void FillBins(std::span<const float> row, std::span<const LogitBlock> blocks, float lowest);
  // Tokens of one bin, in order; valid until the next call.
  std::span<const Candidate> SortedBin(size_t bin);
  Candidate LastKept(std::span<const float> row, std::span<const LogitBlock> blocks,
                     const RowFilter& filter);

  std::vector<Bin> bins_;
  std::vector<Candidate> near_;
  std::vector<Candidate> sorted_;
  std::vector<float> maxima_;
  std::vector<double> block_sums_;
  float max_ = 0;
  float inverse_temperature_ = 1;
};

}  // namespace penstock::sample
