#include "text/piece_cache.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace penstock::text {
namespace {

std::vector<ModelToken> TokensOf(std::vector<int32_t> ids) {
  std::vector<ModelToken> tokens;
  for (const int32_t id : ids) tokens.push_back({id, 0, 1});
  return tokens;
}

class PieceCacheTest : public testing::Test {
 protected:
  std::vector<int32_t> Find(const std::string& piece, uint32_t owner = 1) const {
    const PieceCache::Key key = PieceCache::KeyOf(piece, 0, piece.size());
    std::vector<int32_t> ids(PieceCache::kIds);
    ids.resize(cache_.Find(key, cache_.Fetch(key, owner), owner, ids.data()));
    return ids;
  }
  void Put(const std::string& piece, const std::vector<int32_t>& ids, uint32_t owner = 1) {
    const PieceCache::Key key = PieceCache::KeyOf(piece, 0, piece.size());
    cache_.Put(key, cache_.Fetch(key, owner), owner, TokensOf(ids));
  }
  PieceCache cache_;
};

TEST_F(PieceCacheTest, KeysAreAlikeWhereverAPieceStands) {
  const std::string text = std::string("turbines\0turn", 13) + " and the water goes on";
  for (size_t begin = 0; begin < text.size(); ++begin) {
    for (size_t length = 1; length <= PieceCache::kPieceBytes && begin + length <= text.size();
         ++length) {
      const PieceCache::Key within = PieceCache::KeyOf(text, begin, length);
      const PieceCache::Key alone = PieceCache::KeyOf(text.substr(begin, length), 0, length);
      ASSERT_EQ(within.words[0], alone.words[0]);
      ASSERT_EQ(within.words[1], alone.words[1]);
    }
  }
}

TEST_F(PieceCacheTest, GivesWhatWasPut) {
  EXPECT_TRUE(Find("water").empty());
  Put("water", {0});
  Put("turbine", {5, 0, 7});
  EXPECT_EQ(Find("water"), std::vector<int32_t>{0});
  EXPECT_EQ(Find("turbine"), (std::vector<int32_t>{5, 0, 7}));
  // A NUL at the end is not padding.
  EXPECT_TRUE(Find(std::string("water\0", 6)).empty());
  EXPECT_TRUE(Find("wate").empty());
  // Another tokenizer does not know it.
  EXPECT_TRUE(Find("water", 2).empty());
  Put("water", {9, 8}, 2);
  EXPECT_EQ(Find("water"), std::vector<int32_t>{0});
  EXPECT_EQ(Find("water", 2), (std::vector<int32_t>{9, 8}));
}

TEST_F(PieceCacheTest, WhatDoesNotFitIsNotKept) {
  Put("abcdef", {1, 2, 3, 4});
  EXPECT_TRUE(Find("abcdef").empty());
  Put("abcdef", {});
  EXPECT_TRUE(Find("abcdef").empty());
}

TEST_F(PieceCacheTest, ThreePiecesOfASetAreKept) {
  std::vector<std::string> same = {"w0"};
  const auto place_of = [&](const std::string& piece) {
    return cache_.Fetch(PieceCache::KeyOf(piece, 0, piece.size()), 1);
  };
  for (int i = 1; same.size() < 4; ++i) {
    const std::string piece = "w" + std::to_string(i);
    if (place_of(piece) == place_of("w0")) same.push_back(piece);
  }
  for (int i = 0; i < 3; ++i) Put(same[i], {i});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Find(same[i]), std::vector<int32_t>{i});
  Put(same[3], {3});
  EXPECT_TRUE(Find(same[0]).empty());  // the oldest
  for (int i = 1; i < 4; ++i) EXPECT_EQ(Find(same[i]), std::vector<int32_t>{i});
}

TEST_F(PieceCacheTest, ManyPiecesAreRightOrGone) {
  constexpr int kPieces = 200'000;
  for (int i = 0; i < kPieces; ++i) Put("w" + std::to_string(i), {i, 2 * i});
  int known = 0;
  for (int i = 0; i < kPieces; ++i) {
    const std::vector<int32_t> found = Find("w" + std::to_string(i));
    if (found.empty()) continue;
    ++known;
    ASSERT_EQ(found, (std::vector<int32_t>{i, 2 * i}));
  }
  // Nearly all entries are in use: the hash spreads pieces that are alike.
  EXPECT_GT(known, (2 << PieceCache::kSetBits) * 9 / 10);
}

}  // namespace
}  // namespace penstock::text
