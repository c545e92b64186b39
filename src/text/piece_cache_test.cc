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

template <typename Table>
class PieceCacheTest : public testing::Test {
 protected:
  std::vector<int32_t> Find(const std::string& piece, uint32_t owner = 1) const {
    const typename Table::Key key = Table::KeyOf(piece, 0, piece.size());
    std::vector<int32_t> ids(Table::kIds);
    ids.resize(cache_.Find(key, cache_.Fetch(key, owner), owner, ids.data()));
    return ids;
  }
  void Put(const std::string& piece, const std::vector<int32_t>& ids, uint32_t owner = 1) {
    const typename Table::Key key = Table::KeyOf(piece, 0, piece.size());
    cache_.Put(key, cache_.Fetch(key, owner), owner, TokensOf(ids));
  }
  Table cache_;
};

using Tables = testing::Types<PieceCache, LongPieceCache>;
TYPED_TEST_SUITE(PieceCacheTest, Tables);

TYPED_TEST(PieceCacheTest, KeysAreAlikeWhereverAPieceStands) {
  const std::string text = std::string("turbines\0turn", 13) + " and the water goes on";
  for (size_t begin = 0; begin < text.size(); ++begin) {
    for (size_t length = 1; length <= TypeParam::kPieceBytes && begin + length <= text.size();
         ++length) {
      const typename TypeParam::Key within = TypeParam::KeyOf(text, begin, length);
      const typename TypeParam::Key alone = TypeParam::KeyOf(text.substr(begin, length), 0, length);
      ASSERT_EQ(std::to_array(within.words), std::to_array(alone.words));
    }
  }
}

TYPED_TEST(PieceCacheTest, GivesWhatWasPut) {
  EXPECT_TRUE(this->Find("water").empty());
  this->Put("water", {0});
  this->Put("turbine", {5, 0, 7});
  EXPECT_EQ(this->Find("water"), std::vector<int32_t>{0});
  EXPECT_EQ(this->Find("turbine"), (std::vector<int32_t>{5, 0, 7}));
  // A NUL at the end is not padding.
  EXPECT_TRUE(this->Find(std::string("water\0", 6)).empty());
  EXPECT_TRUE(this->Find("wate").empty());
  // Another tokenizer does not know it.
  EXPECT_TRUE(this->Find("water", 2).empty());
  this->Put("water", {9, 8}, 2);
  EXPECT_EQ(this->Find("water"), std::vector<int32_t>{0});
  EXPECT_EQ(this->Find("water", 2), (std::vector<int32_t>{9, 8}));
}

TYPED_TEST(PieceCacheTest, WhatDoesNotFitIsNotKept) {
  std::vector<int32_t> most(TypeParam::kIds, 1);
  this->Put("fits", most);
  EXPECT_EQ(this->Find("fits"), most);
  most.push_back(1);
  this->Put("abcdef", most);
  EXPECT_TRUE(this->Find("abcdef").empty());
  this->Put("abcdef", {});
  EXPECT_TRUE(this->Find("abcdef").empty());
}

TYPED_TEST(PieceCacheTest, OneMoreThanASetIsKept) {
  constexpr int kKept = TypeParam::kWays + 1;
  std::vector<std::string> same = {"w0"};
  const auto place_of = [&](const std::string& piece) {
    return this->cache_.Fetch(TypeParam::KeyOf(piece, 0, piece.size()), 1);
  };
  for (int i = 1; same.size() <= kKept; ++i) {
    const std::string piece = "w" + std::to_string(i);
    if (place_of(piece) == place_of("w0")) same.push_back(piece);
  }
  for (int i = 0; i < kKept; ++i) this->Put(same[i], {i});
  for (int i = 0; i < kKept; ++i) EXPECT_EQ(this->Find(same[i]), std::vector<int32_t>{i});
  this->Put(same[kKept], {kKept});
  EXPECT_TRUE(this->Find(same[0]).empty());  // the oldest
  for (int i = 1; i <= kKept; ++i) EXPECT_EQ(this->Find(same[i]), std::vector<int32_t>{i});
}

TYPED_TEST(PieceCacheTest, ManyPiecesAreRightOrGone) {
  constexpr int kPieces = 200'000;
  for (int i = 0; i < kPieces; ++i) this->Put("w" + std::to_string(i), {i, 2 * i});
  int known = 0;
  for (int i = 0; i < kPieces; ++i) {
    const std::vector<int32_t> found = this->Find("w" + std::to_string(i));
    if (found.empty()) continue;
    ++known;
    ASSERT_EQ(found, (std::vector<int32_t>{i, 2 * i}));
  }
  // Nearly all entries are in use: the hash spreads pieces that are alike.
  EXPECT_GT(known, (static_cast<int>(TypeParam::kWays) << TypeParam::kSetBits) * 9 / 10);
}

}  // namespace
}  // namespace penstock::text
