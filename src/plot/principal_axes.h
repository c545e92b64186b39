// Principal component analysis: the two axes along which rows differ most.
//
// The leading eigenvectors of the covariance are found in a block Krylov space, by Rayleigh-Ritz
// with full orthogonalisation (Y. Saad, Numerical Methods for Large Eigenvalue Problems, chapter
// 6), in float64. The covariance is never formed: a step is two passes over the rows.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace penstock::plot {

struct Projection {
  // A point for each row, in its order: its coordinates on the first and the second axis, less the
  // mean of all rows. The largest number of an axis by magnitude is positive, so that the same rows
  // give the same picture.
  std::vector<std::array<double, 2>> points;
  // The share of all variance along each axis, 0 to 1; both 0 where all rows are the same.
  std::array<double, 2> shares{};
};

// `rows` have the same length, and finite numbers. Memory: 2,560 bytes for each column, at most.
// One thread.
Projection ProjectOnPrincipalAxes(const std::vector<std::span<const float>>& rows);

}  // namespace penstock::plot
