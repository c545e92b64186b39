#include "plot/principal_axes.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>

namespace penstock::plot {
namespace {

using Vector = std::vector<double>;
using Rows = std::vector<std::span<const float>>;

// Vectors that one step adds. More than two, so that repeated eigenvalues are all found.
constexpr size_t kBlock = 4;
// Largest dimension of the Krylov space. With 160 vectors the first two axes of text embeddings
// were exact to the last digits. With fewer rows or columns the space is complete earlier.
constexpr size_t kSpaceMax = 160;
// Largest residual of a Ritz vector that counts as an eigenvector, relative to the largest
// eigenvalue.
constexpr double kResidual = 1e-11;
// What is left of a vector that lies in the space already, by rounding.
constexpr double kDependent = 1e-12;

double Dot(const Vector& a, const Vector& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

void AddScaled(const Vector& from, double factor, Vector* to) {
  for (size_t i = 0; i < from.size(); ++i) (*to)[i] += factor * from[i];
}

// Exact where all rows are the same: what is averaged is the distance from the first.
Vector MeanOf(const Rows& rows) {
  const std::span<const float> first = rows.front();
  Vector mean(first.size());
  for (const auto row : rows) {
    for (size_t i = 0; i < mean.size(); ++i) {
      mean[i] += static_cast<double>(row[i]) - static_cast<double>(first[i]);
    }
  }
  for (size_t i = 0; i < mean.size(); ++i) {
    mean[i] = static_cast<double>(first[i]) + mean[i] / static_cast<double>(rows.size());
  }
  return mean;
}

// The eigenvectors of a small symmetric matrix, the largest eigenvalue first.
struct SmallEigen {
  Vector values;
  std::vector<Vector> vectors;
};

// Jacobi's cyclic method (Golub and Van Loan, Matrix Computations, section 8.5).
SmallEigen SolveSmall(std::vector<Vector> matrix) {
  const size_t size = matrix.size();
  std::vector<Vector> axes(size, Vector(size));
  for (size_t i = 0; i < size; ++i) axes[i][i] = 1;
  const auto rotate = [&](size_t p, size_t q) {
    const double theta = (matrix[q][q] - matrix[p][p]) / (2 * matrix[p][q]);
    const double t = std::copysign(1 / (std::abs(theta) + std::sqrt(theta * theta + 1)), theta);
    const double c = 1 / std::sqrt(t * t + 1);
    const double s = t * c;
    for (size_t k = 0; k < size; ++k) {
      const double a = matrix[k][p];
      const double b = matrix[k][q];
      matrix[k][p] = c * a - s * b;
      matrix[k][q] = s * a + c * b;
    }
    for (size_t k = 0; k < size; ++k) {
      const double a = matrix[p][k];
      const double b = matrix[q][k];
      matrix[p][k] = c * a - s * b;
      matrix[q][k] = s * a + c * b;
      const double x = axes[p][k];
      const double y = axes[q][k];
      axes[p][k] = c * x - s * y;
      axes[q][k] = s * x + c * y;
    }
  };
  constexpr int kSweepsMax = 30;  // it converges quadratically, after five to ten
  for (int sweep = 0; sweep < kSweepsMax; ++sweep) {
    bool rotated = false;
    for (size_t p = 0; p < size; ++p) {
      for (size_t q = p + 1; q < size; ++q) {
        const double scale = std::sqrt(std::abs(matrix[p][p] * matrix[q][q]));
        if (std::abs(matrix[p][q]) <= 1e-17 * scale || std::abs(matrix[p][q]) < 1e-300) continue;
        rotate(p, q);
        rotated = true;
      }
    }
    if (!rotated) break;
  }
  std::vector<size_t> order(size);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return matrix[a][a] > matrix[b][b]; });
  SmallEigen eigen;
  for (const size_t i : order) {
    eigen.values.push_back(matrix[i][i]);
    eigen.vectors.push_back(std::move(axes[i]));
  }
  return eigen;
}

struct PrincipalAxis {
  double scatter = 0;  // variance times rows
  Vector direction;
};

// The space that grows, and the scatter matrix (centred rows, transposed, times themselves) applied
// to each vector of it.
class KrylovSpace {
 public:
  KrylovSpace(const Rows& rows, const Vector& mean) : rows_(rows), mean_(mean) {}

  // The two leading axes; of a space of one dimension the second is zero.
  std::array<PrincipalAxis, 2> Solve() {
    std::vector<Vector> next = Start();
    while (true) {
      const size_t begin = basis_.size();
      for (Vector& vector : next) Take(std::move(vector));
      const bool whole = basis_.size() == begin;
      if (!whole) Apply(begin);
      const bool full = whole || basis_.size() + kBlock > kSpaceMax;
      // Solving costs the cube of the size: at every doubling, and at the end.
      if (full || basis_.size() >= 2 * solved_at_) {
        solved_at_ = basis_.size();
        std::array<PrincipalAxis, 2> axes;
        if (Leading(&axes) || full) return axes;
      }
      next.assign(images_.begin() + static_cast<ptrdiff_t>(begin), images_.end());
    }
  }

 private:
  // The same vectors each time: numbers by a linear congruential generator (Knuth's MMIX).
  std::vector<Vector> Start() const {
    uint64_t state = 1;
    std::vector<Vector> vectors(kBlock, Vector(mean_.size()));
    for (Vector& vector : vectors) {
      for (double& value : vector) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        value = static_cast<double>(state >> 11) * 0x1p-53 - 0.5;
      }
    }
    return vectors;
  }

  // Adds what of `vector` lies outside of the space, if anything does. Twice is enough.
  void Take(Vector vector) {
    const double before = std::sqrt(Dot(vector, vector));
    for (int pass = 0; pass < 2; ++pass) {
      for (const Vector& axis : basis_) AddScaled(axis, -Dot(axis, vector), &vector);
    }
    const double left = std::sqrt(Dot(vector, vector));
    if (basis_.size() == mean_.size() || !(left > kDependent * std::max(before, largest_))) return;
    for (double& value : vector) value /= left;
    basis_.push_back(std::move(vector));
  }

  // Fills images_ from `begin` on.
  void Apply(size_t begin) {
    const size_t width = mean_.size();
    images_.resize(basis_.size(), Vector(width));
    Vector centred(width);
    for (const auto row : rows_) {
      for (size_t i = 0; i < width; ++i) centred[i] = static_cast<double>(row[i]) - mean_[i];
      for (size_t k = begin; k < basis_.size(); ++k) {
        AddScaled(centred, Dot(centred, basis_[k]), &images_[k]);
      }
    }
    for (size_t k = begin; k < basis_.size(); ++k) {
      largest_ = std::max(largest_, std::sqrt(Dot(images_[k], images_[k])));
    }
  }

  // The best axes in the space; whether they are exact.
  bool Leading(std::array<PrincipalAxis, 2>* axes) const {
    const size_t size = basis_.size();
    std::vector<Vector> small(size, Vector(size));
    for (size_t i = 0; i < size; ++i) {
      for (size_t j = i; j < size; ++j) {
        small[i][j] = small[j][i] = Dot(basis_[i], images_[j]);
      }
    }
    const SmallEigen eigen = SolveSmall(std::move(small));
    bool exact = size > 2;
    for (size_t n = 0; n < axes->size(); ++n) {
      PrincipalAxis& axis = (*axes)[n];
      axis.direction.assign(mean_.size(), 0);
      if (n >= size) continue;
      axis.scatter = std::max(eigen.values[n], 0.0);
      Vector residual(mean_.size());
      for (size_t k = 0; k < size; ++k) {
        AddScaled(basis_[k], eigen.vectors[n][k], &axis.direction);
        AddScaled(images_[k], eigen.vectors[n][k], &residual);
      }
      AddScaled(axis.direction, -eigen.values[n], &residual);
      exact = exact && std::sqrt(Dot(residual, residual)) <= kResidual * eigen.values[0];
    }
    return exact;
  }

  const Rows& rows_;
  const Vector& mean_;
  std::vector<Vector> basis_;   // orthonormal
  std::vector<Vector> images_;  // of the basis
  double largest_ = 0;          // length of an image: no more than the largest eigenvalue
  size_t solved_at_ = kBlock;
};

void MakeSignUnique(Vector* axis) {
  const auto largest = std::max_element(
      axis->begin(), axis->end(), [](double a, double b) { return std::abs(a) < std::abs(b); });
  if (largest == axis->end() || *largest >= 0) return;
  for (double& value : *axis) value = -value;
}

}  // namespace

Projection ProjectOnPrincipalAxes(const Rows& rows) {
  Projection projection;
  projection.points.resize(rows.size());
  if (rows.empty()) return projection;
  const Vector mean = MeanOf(rows);
  double scatter = 0;
  for (const auto row : rows) {
    for (size_t i = 0; i < mean.size(); ++i) {
      const double distance = static_cast<double>(row[i]) - mean[i];
      scatter += distance * distance;
    }
  }
  if (scatter == 0) return projection;
  std::array<PrincipalAxis, 2> axes = KrylovSpace(rows, mean).Solve();
  for (size_t n = 0; n < axes.size(); ++n) {
    // Rows on a line have no second axis, only rounding.
    if (axes[n].scatter <= kDependent * scatter) continue;
    projection.shares[n] = std::min(axes[n].scatter / scatter, 1.0);
    MakeSignUnique(&axes[n].direction);
    for (size_t r = 0; r < rows.size(); ++r) {
      for (size_t i = 0; i < mean.size(); ++i) {
        projection.points[r][n] +=
            (static_cast<double>(rows[r][i]) - mean[i]) * axes[n].direction[i];
      }
    }
  }
  return projection;
}

}  // namespace penstock::plot
