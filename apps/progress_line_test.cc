#include "progress_line.h"

#include <gtest/gtest.h>

namespace penstock::cli {
namespace {

TEST(ProgressText, ShowsAsMuchAsFits) {
  const ProgressFacts facts{"embedding", 8192, 524'288, 30.8, 0.451, 700, 3, 2};
  const std::string whole =
      "embedding 45.1 %, 12 min left, 8192 texts, 266 texts/s, 17022 tokens/s, 3 cut, 2 skipped";
  EXPECT_EQ(ProgressText(facts, 1000), whole);
  EXPECT_EQ(ProgressText(facts, whole.size()), whole);
  EXPECT_EQ(ProgressText(facts, whole.size() - 1), whole.substr(0, whole.rfind(',')));
  EXPECT_EQ(ProgressText(facts, 30), "embedding 45.1 %, 12 min left");
  for (size_t columns = 0; columns < 100; ++columns) {
    EXPECT_LE(ProgressText(facts, columns).size(), columns);
  }
}

TEST(ProgressText, SaysNoMoreThanIsKnown) {
  EXPECT_EQ(ProgressText({.stage = "reading"}, 80), "reading");
  EXPECT_EQ(ProgressText({.stage = "embedding", .texts = 10, .tokens = 40, .seconds = 2}, 80),
            "embedding 10 texts, 5 texts/s, 20 tokens/s");
  EXPECT_EQ(ProgressText({.texts = 10, .tokens = 40, .seconds = 2}, 80),
            "10 texts, 5 texts/s, 20 tokens/s");
  EXPECT_EQ(ProgressText({.stage = "embedding", .done = 0.01}, 80), "embedding 1.0 %");
  // An input that turned out longer than it looked.
  EXPECT_EQ(ProgressText({.stage = "embedding", .done = 1.2, .left_s = 0}, 80),
            "embedding 100.0 %, 0 s left");
}

}  // namespace
}  // namespace penstock::cli
