#include "checks/model_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace penstock::checks {

bool SameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

bool SameBits(const ModelRows& a, const ModelRows& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return SameBits(x, y); });
}

double LargestDifference(const ModelRows& a, const ModelRows& b) {
  double largest = 0;
  for (size_t row = 0; row < a.size(); ++row) {
    for (size_t i = 0; i < a[row].size(); ++i) {
      largest = std::max(largest, std::abs(double{a[row][i]} - b[row][i]));
    }
  }
  return largest;
}

double RelativeDifference(std::span<const float> a, std::span<const float> b) {
  double largest = 0, error = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max({largest, std::abs(double{a[i]}), std::abs(double{b[i]})});
    error = std::max(error, std::abs(double{a[i]} - b[i]));
  }
  return largest == 0 ? 0 : error / largest;
}

double CosineOf(std::span<const float> a, std::span<const float> b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += double{a[i]} * b[i];
    aa += double{a[i]} * a[i];
    bb += double{b[i]} * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

}  // namespace penstock::checks
