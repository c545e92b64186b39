#include "generate/ngram_draft.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

namespace penstock::generate {
namespace {

using testing::ElementsAre;

// A text and its draft.
struct Text {
  explicit Text(std::vector<int32_t> begin) : ids(std::move(begin)), draft(1000) { Follow(); }
  void Add(int32_t id) {
    ids.push_back(id);
    Follow();
  }
  void Follow() { draft.Follow(static_cast<int32_t>(ids.size()), token); }
  std::vector<int32_t> Guess(int32_t count) {
    std::vector<int32_t> guess;
    draft.Guess(count, token, &guess);
    return guess;
  }

  std::vector<int32_t> ids;
  NgramDraft draft;
  NgramDraft::Token token = [this](int32_t at) { return ids[static_cast<size_t>(at)]; };
};

TEST(NgramDraft, GuessesWhatFollowedBefore) {
  Text text({1, 2, 3, 4, 5, 6, 9, 1, 2});
  EXPECT_EQ(text.draft.chance(), 0);
  text.Add(3);
  EXPECT_GT(text.draft.chance(), 0);
  EXPECT_THAT(text.Guess(4), ElementsAre(4, 5, 6, 9));
  // The latest place counts.
  Text twice({1, 2, 3, 4, 1, 2, 3, 5, 1, 2, 3});
  EXPECT_THAT(twice.Guess(1), ElementsAre(5));
}

TEST(NgramDraft, GoesOnWhereItReadAndPastWhatIsReplaced) {
  Text text({1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 1, 2, 3});
  for (const int32_t id : {4, 5, 100}) text.Add(id);
  EXPECT_THAT(text.Guess(2), ElementsAre(7, 8));
  // Nothing of this text stood before.
  for (const int32_t id : {101, 102}) text.Add(id);
  EXPECT_EQ(text.draft.chance(), 0);
}

TEST(NgramDraft, ALoopGoesOnIntoItself) {
  Text text({1, 2, 1, 2, 1});
  EXPECT_THAT(text.Guess(5), ElementsAre(2, 1, 2, 1, 2));
}

TEST(NgramDraft, LearnsItsChance) {
  Text copy({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 1, 2, 3});
  for (int32_t id = 4; id < 20; ++id) copy.Add(id);
  EXPECT_GT(copy.draft.chance(), 0.85);
  // With eight tokens at random, three in a row have stood before, and say nothing.
  std::mt19937 random(5);
  Text other({});
  double highest = 0;
  for (int i = 0; i < 900; ++i) {
    other.Add(static_cast<int32_t>(random() % 8));
    if (i > 600) highest = std::max(highest, other.draft.chance());
  }
  EXPECT_GT(highest, 0);
  EXPECT_LT(highest, 0.5);
}

TEST(NgramDraft, ItsMemoryIsBounded) {
  EXPECT_EQ(NgramDraft::HeapBytes(10), 64 * 4);
  EXPECT_EQ(NgramDraft::HeapBytes(1000), 2048 * 4);
  EXPECT_EQ(NgramDraft::HeapBytes(1 << 20), (1 << 16) * 4);
}

}  // namespace
}  // namespace penstock::generate
