#include "api/scores.h"

#include <gtest/gtest.h>

#include <cmath>

namespace penstock::api {
namespace {

TEST(Scores, SigmoidAndSoftmaxDoNotOverflow) {
  EXPECT_EQ(Sigmoid(0), 0.5f);
  EXPECT_EQ(Sigmoid(200), 1.0f);
  EXPECT_EQ(Sigmoid(-1000), 0.0f);
  std::vector<float> row = {1000, 1000, -1000};
  Softmax(row);
  EXPECT_EQ(row, (std::vector<float>{0.5f, 0.5f, 0}));
}

TEST(Scores, FunctionByProblemType) {
  families::EncoderConfig config;
  EXPECT_EQ(ClassifyFunction(config, 3), ScoreFunction::kSoftmax);
  EXPECT_EQ(ClassifyFunction(config, 1), ScoreFunction::kSigmoid);
  config.problem_type = "multi_label_classification";
  EXPECT_EQ(ClassifyFunction(config, 3), ScoreFunction::kSigmoid);
  config.problem_type = "regression";
  EXPECT_EQ(ClassifyFunction(config, 1), ScoreFunction::kIdentity);
  EXPECT_EQ(RerankFunction(config), ScoreFunction::kSigmoid);
  config.cross_encoder_activation = "identity";
  EXPECT_EQ(RerankFunction(config), ScoreFunction::kIdentity);
}

TEST(Scores, RankedItemsKeepTheOrderOfTiesAndOfSaturatedScores) {
  const std::vector<float> logits = {1, 40, 50, 1, -3};
  const auto items = RankedItems(logits, ScoreFunction::kSigmoid, 4);
  ASSERT_EQ(items.size(), 4u);
  EXPECT_EQ(items[0].index, 2);  // both are 1.0f after the sigmoid, yet 50 is more than 40
  EXPECT_EQ(items[1].index, 1);
  EXPECT_EQ(items[2].index, 0);
  EXPECT_EQ(items[3].index, 3);
  EXPECT_FLOAT_EQ(items[3].score, 1 / (1 + std::exp(-1.0f)));
}

TEST(Scores, LabelsBestFirst) {
  const auto labels = SortedLabels(std::vector<float>{0.1f, 0.5f, 0.1f});
  EXPECT_EQ(labels[0].id, 1);
  EXPECT_EQ(labels[1].id, 0);
  EXPECT_EQ(labels[2].id, 2);
}

TEST(Scores, Similarities) {
  const std::vector<float> a = {3, 4}, b = {4, 3}, zero = {0, 0};
  EXPECT_FLOAT_EQ(SimilarityOf("cosine", a, b), 24.0f / 25);
  EXPECT_FLOAT_EQ(SimilarityOf("", a, a), 1);
  EXPECT_FLOAT_EQ(SimilarityOf("dot", a, b), 24);
  EXPECT_FLOAT_EQ(SimilarityOf("euclidean", a, b), -std::sqrt(2.0f));
  EXPECT_FLOAT_EQ(SimilarityOf("manhattan", a, b), -2);
  EXPECT_EQ(SimilarityOf("cosine", a, zero), 0);
}

}  // namespace
}  // namespace penstock::api
