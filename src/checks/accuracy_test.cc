#include "checks/accuracy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace penstock::checks {
namespace {

using testing::HasSubstr;
using testing::Not;

double SpearmanOf(std::vector<float> a, std::vector<float> b) { return Spearman(a, b); }

TEST(Accuracy, SpearmanByHand) {
  EXPECT_DOUBLE_EQ(SpearmanOf({1, 2, 3}, {10, 20, 90}), 1);
  EXPECT_DOUBLE_EQ(SpearmanOf({1, 2, 3}, {3, 2, 1}), -1);
  // Ranks differ by 0, 1, 1, 0: 1 - 6 * 2 / (4 * 15).
  EXPECT_DOUBLE_EQ(SpearmanOf({1, 2, 3, 4}, {1, 3, 2, 4}), 0.8);
  // Ranks 0, 1.5, 1.5, 3 against 0, 1, 2, 3: 4.5 / sqrt(4.5 * 5).
  EXPECT_DOUBLE_EQ(SpearmanOf({1, 2, 2, 3}, {1, 2, 3, 4}), 4.5 / std::sqrt(22.5));
  EXPECT_EQ(SpearmanOf({1, 1}, {2, 2}), 1);
  EXPECT_EQ(SpearmanOf({1, 1}, {2, 3}), 0);
  EXPECT_TRUE(std::isnan(SpearmanOf({1, NAN}, {2, 3})));
}

TEST(Accuracy, TopOverlapCountsWhatBothHave) {
  const std::vector<float> a = {9, 8, 7, 1, 2}, b = {9, 1, 7, 8, 2};
  EXPECT_EQ(TopOverlap(a, b, 3), 2u);
  EXPECT_EQ(TopOverlap(a, b, 1), 1u);
  EXPECT_EQ(TopOverlap(a, a, 5), 5u);
  const std::vector<float> equal = {1, 1, 1, 1, 1};
  EXPECT_EQ(TopOverlap(equal, equal, 2), 2u);
}

TEST(Accuracy, EmbeddingsByHand) {
  // The second vector is turned by the angle of cosine 0.8, the others only scaled.
  const ResultRows a = {{1, 0, 1, 0, 0, 2, 3, 3}, 2};
  const ResultRows b = {{2, 0, 0.8f, 0.6f, 0, 1, 1, 1}, 2};
  const EmbeddingAccuracy accuracy = CompareEmbeddings(a, b);
  EXPECT_NEAR(accuracy.cosine_mean, 3.8 / 4, 1e-7);
  EXPECT_NEAR(accuracy.cosine_min, 0.8, 1e-7);
  EXPECT_EQ(accuracy.worst, 1u);
  EXPECT_EQ(accuracy.top10_overlap_percent, 100);  // all three others
  EXPECT_GT(accuracy.spearman_difference, 0);
  EXPECT_THAT(accuracy.Beyond(kInt8Limits), HasSubstr("cosine min 0.8 (limit 0.995)"));
  EXPECT_THAT(accuracy.Beyond(kInt8Limits), Not(HasSubstr("top-10")));
  EXPECT_EQ(CompareEmbeddings(a, a).Beyond(kBf16Limits), "");
}

// 24 directions in a plane; the second side mirrors half of them, which exchanges neighbours.
TEST(Accuracy, NeighboursAreThoseOfEachSide) {
  ResultRows a = {{}, 2}, b = {{}, 2};
  for (int i = 0; i < 24; ++i) {
    const float angle = static_cast<float>(i) * 0.26f;
    a.values.insert(a.values.end(), {std::cos(angle), std::sin(angle)});
    const float other = i % 2 == 0 ? angle : -angle;
    b.values.insert(b.values.end(), {std::cos(other), std::sin(other)});
  }
  const EmbeddingAccuracy accuracy = CompareEmbeddings(a, b);
  EXPECT_LT(accuracy.top10_overlap_percent, 90);
  EXPECT_GT(accuracy.top10_overlap_percent, 10);
  EXPECT_EQ(CompareEmbeddings(a, a).top10_overlap_percent, 100);
}

TEST(Accuracy, NanIsBeyondEveryLimit) {
  const ResultRows a = {{1, 0, 0, 1}, 2};
  const ResultRows b = {{1, 0, NAN, 1}, 2};
  const std::string beyond = CompareEmbeddings(a, b).Beyond({});
  for (const char* what : {"cosine mean", "cosine min", "Spearman", "top-10"}) {
    EXPECT_THAT(beyond, HasSubstr(what));
  }
  EXPECT_THAT(CompareScores(a, b).Beyond({}), HasSubstr("Spearman"));
  EXPECT_TRUE(std::isnan(CompareScores(a, b).difference_max));
}

TEST(Accuracy, ScoresByHand) {
  const ResultRows a = {{1, 2, 3, 4, 4, 3, 2, 1}, 4};
  const ResultRows b = {{1, 3, 2, 4, 4, 3, 2, 1.5f}, 4};
  const ScoreAccuracy accuracy = CompareScores(a, b);
  EXPECT_DOUBLE_EQ(accuracy.difference_mean, 2.5 / 8);
  EXPECT_DOUBLE_EQ(accuracy.difference_max, 1);
  EXPECT_NEAR(accuracy.spearman_difference, 0.1, 1e-12);  // 0.2 and 0
  EXPECT_DOUBLE_EQ(accuracy.top10_overlap_percent, 75);   // the top two: one shared, and both
  EXPECT_THAT(accuracy.Beyond(kInt8Limits), HasSubstr("top-10 overlap % 75 (limit 97)"));
}

}  // namespace
}  // namespace penstock::checks
