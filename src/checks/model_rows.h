// Results of a model as rows, and how far two sets of them are apart.
#pragma once

#include <span>
#include <vector>

namespace penstock::checks {

using ModelRows = std::vector<std::vector<float>>;

bool SameBits(std::span<const float> a, std::span<const float> b);
bool SameBits(const ModelRows& a, const ModelRows& b);
// The largest difference; of rows: of the largest number.
double LargestDifference(const ModelRows& a, const ModelRows& b);
double RelativeDifference(std::span<const float> a, std::span<const float> b);
// The vectors have one length; NaN where one is 0.
double CosineOf(std::span<const float> a, std::span<const float> b);

}  // namespace penstock::checks
