#include "checks/varied_texts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace penstock::checks {
namespace {

TEST(VariedTexts, AreManyDifferentAndTheSameInEveryRun) {
  const std::vector<std::string> texts = VariedTexts(3000);
  ASSERT_EQ(texts.size(), 3000u);
  EXPECT_EQ(std::set<std::string>(texts.begin(), texts.end()).size(), texts.size());
  EXPECT_EQ(VariedTexts(3000), texts);
  const std::vector<std::string> few = VariedTexts(100);
  EXPECT_TRUE(std::equal(few.begin(), few.end(), texts.begin()));
}

TEST(VariedTexts, AreVaried) {
  EXPECT_GE(VariedSentences().size(), 200u);
  const std::vector<std::string> texts = VariedTexts(2000);
  const auto bytes = [](const std::string& text) { return text.size(); };
  EXPECT_LE(std::ranges::min(texts, {}, bytes).size(), 3u);
  EXPECT_GE(std::ranges::max(texts, {}, bytes).size(), 3000u);
  size_t foreign = 0;
  for (const std::string& text : texts) {
    foreign += std::ranges::any_of(text, [](char c) { return static_cast<signed char>(c) < 0; });
  }
  EXPECT_GT(foreign, 400u);
  EXPECT_TRUE(VariedTexts(0).empty());
}

}  // namespace
}  // namespace penstock::checks
