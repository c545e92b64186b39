#include "lab/saturation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace penstock::lab {
namespace {

size_t Words(const std::string& text) {
  return 1 + static_cast<size_t>(std::count(text.begin(), text.end(), ' '));
}

TEST(StratifiedTextsTest, HaveTheDistributionInEverySeed) {
  const load::LengthSpec lengths = *load::LengthSpec::Parse("uniform:1,100");
  std::set<std::vector<std::string>> orders;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const auto texts = StratifiedTexts(lengths, 50, seed);
    ASSERT_EQ(texts.size(), 50u);
    std::vector<size_t> words;
    for (const std::string& text : texts) words.push_back(Words(text));
    EXPECT_FALSE(std::is_sorted(words.begin(), words.end()));
    std::sort(words.begin(), words.end());
    for (size_t i = 0; i < words.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(words[i]), 2.0 * static_cast<double>(i) + 1.5, 6);
    }
    orders.insert(texts);
  }
  EXPECT_EQ(orders.size(), 5u);
}

}  // namespace
}  // namespace penstock::lab
