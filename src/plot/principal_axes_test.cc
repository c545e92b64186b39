#include "plot/principal_axes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace penstock::plot {
namespace {

struct Matrix {
  Matrix(size_t count, size_t width) : columns(width), values(count * width) {}
  std::vector<std::span<const float>> rows() const {
    std::vector<std::span<const float>> spans;
    for (size_t at = 0; at < values.size(); at += columns) {
      spans.emplace_back(values.data() + at, columns);
    }
    return spans;
  }
  float& at(size_t row, size_t column) { return values[row * columns + column]; }

  size_t columns;
  std::vector<float> values;
};

Projection Project(const Matrix& matrix) { return ProjectOnPrincipalAxes(matrix.rows()); }

// Independent columns of falling spread, far from zero.
Matrix Cloud(size_t rows, size_t columns) {
  Matrix matrix(rows, columns);
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      const float spread = 1.0F / (1.0F + static_cast<float>(column));
      matrix.at(row, column) = 3 + spread * normal(random);
    }
  }
  return matrix;
}

TEST(PrincipalAxes, OfFewRowsSayWhatIsThere) {
  EXPECT_TRUE(ProjectOnPrincipalAxes({}).points.empty());
  Matrix one(1, 3);
  one.values = {1, 2, 3};
  EXPECT_EQ(Project(one).points[0], (std::array<double, 2>{0, 0}));
  EXPECT_EQ(Project(one).shares, (std::array<double, 2>{0, 0}));
  Matrix two(2, 3);
  two.values = {1, 2, 3, 1, 5, 7};
  const Projection of_two = Project(two);
  EXPECT_NEAR(of_two.points[0][0], -2.5, 1e-12);
  EXPECT_NEAR(of_two.points[1][0], 2.5, 1e-12);
  EXPECT_EQ(of_two.points[0][1], 0);
  EXPECT_NEAR(of_two.shares[0], 1, 1e-12);
  EXPECT_EQ(of_two.shares[1], 0);
}

TEST(PrincipalAxes, OfEqualRowsAreNone) {
  Matrix same(1000, 384);
  for (size_t i = 0; i < same.values.size(); ++i) {
    same.values[i] = 0.1F * static_cast<float>(i % 384) + 1e-3F;
  }
  const Projection projection = Project(same);
  EXPECT_EQ(projection.shares, (std::array<double, 2>{0, 0}));
  for (const auto& point : projection.points) EXPECT_EQ(point, (std::array<double, 2>{0, 0}));
}

TEST(PrincipalAxes, OfALineHaveNoSecond) {
  Matrix line(50, 20);
  for (size_t row = 0; row < 50; ++row) {
    for (size_t column = 0; column < 20; ++column) {
      line.at(row, column) = static_cast<float>(row * (column + 1));
    }
  }
  const Projection projection = Project(line);
  EXPECT_NEAR(projection.shares[0], 1, 1e-9);
  EXPECT_EQ(projection.shares[1], 0);
  EXPECT_LT(projection.points[0][0], projection.points[49][0]);  // the largest number is positive
}

// Rows at the corners of a simplex: all axes are equal, and any two of them are right.
TEST(PrincipalAxes, OfEqualEigenvaluesAreTwo) {
  Matrix corners(6, 6);
  for (size_t i = 0; i < 6; ++i) corners.at(i, i) = 1;
  const Projection projection = Project(corners);
  EXPECT_NEAR(projection.shares[0], 0.2, 1e-12);
  EXPECT_NEAR(projection.shares[1], 0.2, 1e-12);
}

// The variance that the axes have is what the projection shows, and no other direction has more:
// turning an axis a little towards a random one loses some.
TEST(PrincipalAxes, HaveTheMostVariance) {
  const Matrix matrix = Cloud(700, 300);
  const Projection projection = Project(matrix);
  double total = 0;
  std::vector<double> mean(300);
  for (const auto row : matrix.rows()) {
    for (size_t i = 0; i < 300; ++i) mean[i] += row[i] / 700.0;
  }
  for (const auto row : matrix.rows()) {
    for (size_t i = 0; i < 300; ++i) total += std::pow(row[i] - mean[i], 2);
  }
  double sums[3] = {};
  for (const auto& point : projection.points) {
    sums[0] += point[0] * point[0];
    sums[1] += point[1] * point[1];
    sums[2] += point[0] * point[1];
  }
  EXPECT_NEAR(sums[0] / total, projection.shares[0], 1e-12);
  EXPECT_NEAR(sums[1] / total, projection.shares[1], 1e-12);
  EXPECT_NEAR(sums[2] / total, 0, 1e-12);
  EXPECT_GT(projection.shares[0], projection.shares[1]);
  EXPECT_GT(projection.shares[0], 0.55);  // 1 of the sum of 1 / n^2, which is 1.64
}

TEST(PrincipalAxes, AreTheSameEachTime) {
  const Matrix matrix = Cloud(200, 64);
  EXPECT_EQ(Project(matrix).points, Project(matrix).points);
}

// More columns than the space has vectors, and a spectrum that falls slowly: axes stay orthogonal
// and in order.
TEST(PrincipalAxes, OfASlowSpectrumAreFound) {
  Matrix matrix(900, 500);
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (float& value : matrix.values) value = normal(random);
  const Projection projection = Project(matrix);
  // Marchenko-Pastur: the largest eigenvalue is near (1 + sqrt(500 / 900))^2 of the mean one.
  EXPECT_NEAR(projection.shares[0] * 500, 3.05, 0.15);
  EXPECT_GE(projection.shares[0], projection.shares[1]);
}

}  // namespace
}  // namespace penstock::plot
