// Texts of a made-up recurrent layer: its state is a hash of all tokens so far. Snapshots at the
// ends of blocks are what other texts, later turns, and texts that gave their blocks back go on
// from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <vector>

#include "kv/group_policy.h"
#include "kv/sequence.h"

namespace penstock::kv {
namespace {

using Ids = std::vector<int32_t>;

Ids From(int32_t first, size_t count) {
  Ids ids(count);
  std::iota(ids.begin(), ids.end(), first);
  return ids;
}

Ids Joined(Ids a, const Ids& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

uint64_t Next(uint64_t state, int32_t id) {
  return (state ^ static_cast<uint64_t>(id)) * 0x9e3779b97f4a7c15 + 1;
}

uint64_t StateOf(std::span<const int32_t> ids) {
  uint64_t state = 0;
  for (const int32_t id : ids) state = Next(state, id);
  return state;
}

class StateGroupTest : public testing::Test {
 protected:
  static constexpr size_t kStates = 1;  // the group
  static constexpr CacheGroup kGroups[] = {kFullGroup, {CacheKind::kState}};

  std::unique_ptr<Sequence> New(bool cached = true) {
    return std::make_unique<Sequence>(&pools_, cached ? &cache_ : nullptr, 1000);
  }
  // The operation: goes on from the state of token past - 1, and writes that of each token to its
  // block, so that those of whole blocks stay.
  uint64_t RunRows(const Sequence& sequence, std::span<const int32_t> rows) {
    const BlockTable& table = sequence.blocks(kStates);
    const auto block = [&](int32_t token) {
      return static_cast<size_t>(table[static_cast<size_t>(token / kKvBlockTokens)]);
    };
    int32_t past = sequence.length();
    uint64_t state = past == 0 ? 0 : states_[block(past - 1)];
    for (const int32_t id : rows) {
      state = Next(state, id);
      states_[block(past++)] = state;
    }
    return state;
  }
  // Runs the rest of a text, in steps of up to `rows` tokens. Its state is that of all its tokens.
  void RunRest(Sequence* sequence, const Ids& ids, size_t rows = 1000) {
    while (static_cast<size_t>(sequence->length()) < ids.size()) {
      const auto past = static_cast<size_t>(sequence->length());
      const auto step = std::span(ids).subspan(past, std::min(rows, ids.size() - past));
      ASSERT_TRUE(sequence->Reserve(static_cast<int32_t>(step.size())).ok());
      ASSERT_EQ(RunRows(*sequence, step), StateOf(std::span(ids).first(past + step.size())));
      sequence->Append(step);
    }
  }
  int32_t held() const { return pools_[kStates].counts().in_use; }
  void EvictStates() { pools_[kStates].EvictIdleSince(INT64_MAX, 1000); }

  CachePools pools_{kGroups, Ids{64, 32}};
  PrefixCache cache_{&pools_};
  std::vector<uint64_t> states_ = std::vector<uint64_t>(32);
};

TEST_F(StateGroupTest, ATextHoldsItsLastSnapshotAndItsState) {
  for (const bool cached : {false, true}) {
    auto sequence = New(cached);
    RunRest(sequence.get(), From(0, 500), 1);
    EXPECT_EQ(held(), 2);
    EXPECT_EQ(sequence->blocks(kStates)[13], -1);
    EXPECT_GE(sequence->blocks(kStates)[14], 0);
    EXPECT_EQ(pools_[kStates].counts().idle, cached ? 14 : 0);  // known, to be evicted
    sequence->Release();
    EvictStates();
  }
}

TEST_F(StateGroupTest, AnotherTextGoesOnFromASnapshot) {
  auto first = New(), second = New(), third = New();
  RunRest(first.get(), From(0, 200), 70);
  const Ids branch = Joined(From(0, 110), From(500, 60));
  EXPECT_EQ(second->TakeCached(branch), 96);
  EXPECT_EQ(held(), 2 + 1);
  RunRest(second.get(), branch);
  // The first one's state and snapshots are what they were.
  RunRest(first.get(), From(0, 300), 1);
  EXPECT_EQ(third->TakeCached(From(0, 200)), 192);
  RunRest(third.get(), From(0, 200));
}

TEST_F(StateGroupTest, WithoutTheSnapshotAnEarlierOneServes) {
  auto sequence = New(), other = New();
  RunRest(sequence.get(), From(0, 128));
  other->Fork(*sequence, 128);  // holds the snapshot after 128 tokens
  sequence->Release();
  auto branch = New();
  EXPECT_EQ(branch->TakeCached(From(0, 100)), 96);  // holds the one after 96
  EvictStates();                                    // those after 32 and 64
  EXPECT_EQ(New()->TakeCached(From(0, 200)), 128);
  EXPECT_EQ(New()->TakeCached(From(0, 120)), 96);
  EXPECT_EQ(New()->TakeCached(From(0, 90)), 0);  // keys and values are there, no state is
  other->Release();
  EXPECT_EQ(New()->TakeCached(From(0, 200)), 128);
  EvictStates();
  EXPECT_EQ(New()->TakeCached(From(0, 200)), 96);
  RunRest(branch.get(), From(0, 150));
}

TEST_F(StateGroupTest, ASecondTurnGoesOnInTheUnfinishedBlock) {
  auto sequence = New(), other = New();
  RunRest(sequence.get(), From(0, 80));
  sequence->Release();
  const Ids second = Joined(From(0, 80), From(300, 50));
  EXPECT_EQ(sequence->TakeCached(second), 80);
  EXPECT_EQ(other->TakeCached(second), 64);  // the first took the unfinished one
  RunRest(sequence.get(), second, 7);
  RunRest(other.get(), second);
}

TEST_F(StateGroupTest, Forks) {
  for (const bool cached : {false, true}) {
    auto first = New(cached), second = New(cached), third = New(cached);
    RunRest(first.get(), From(0, 70));
    second->Fork(*first, 70);
    EXPECT_EQ(second->length(), 64);
    EXPECT_EQ(second->blocks(kStates)[1], first->blocks(kStates)[1]);
    RunRest(first.get(), From(0, 90), 1);
    RunRest(second.get(), Joined(From(0, 64), From(700, 40)), 3);
    // The snapshot after 32 tokens was given back: it is there if the prefix cache knows it.
    third->Fork(*first, 40);
    EXPECT_EQ(third->length(), cached ? 32 : 0);
    RunRest(third.get(), From(0, 50));
  }
}

TEST_F(StateGroupTest, TruncateGoesBackToASnapshot) {
  for (const bool cached : {false, true}) {
    auto sequence = New(cached);
    RunRest(sequence.get(), From(0, 90));
    ASSERT_TRUE(sequence->Reserve(50).ok());
    EXPECT_EQ(sequence->Truncate(90), 90);  // reserved room
    RunRest(sequence.get(), From(0, 95));
    EXPECT_EQ(sequence->Truncate(94), 64);  // the state is that of 95 tokens
    RunRest(sequence.get(), Joined(From(0, 64), From(900, 20)));
    EXPECT_EQ(sequence->Truncate(50), cached ? 32 : 0);
    RunRest(sequence.get(), From(0, 60));
    EXPECT_EQ(sequence->Truncate(0), 0);
    EXPECT_EQ(held(), 0);
  }
}

// A text that gives its blocks back to another goes on from the last snapshot that is left.
TEST_F(StateGroupTest, Preemption) {
  auto sequence = New(), other = New();
  const Ids text = From(0, 400);
  RunRest(sequence.get(), Ids(text.begin(), text.begin() + 330), 40);
  EXPECT_EQ(other->Reserve(31 * 32).code(), StatusCode::kResourceExhausted);
  sequence->Release();
  EXPECT_EQ(held(), 0);
  EXPECT_EQ(sequence->TakeCached(text), 330);  // nothing was taken meanwhile
  sequence->Release();
  RunRest(other.get(), From(5000, 820), 400);  // takes the oldest snapshots
  EXPECT_GT(pools_[kStates].counts().evictions, 0u);
  other->Release();
  const int32_t restored = sequence->TakeCached(text);
  EXPECT_GT(restored, 0);
  RunRest(sequence.get(), text, 40);
  // With all states gone it is computed from its beginning.
  sequence->Release();
  EvictStates();
  EXPECT_EQ(sequence->TakeCached(text), 0);
  RunRest(sequence.get(), text, 40);
}

TEST_F(StateGroupTest, TextsComputedAtOnceShareSnapshots) {
  auto one = New(), two = New();
  const Ids text = From(0, 70);
  for (Sequence* sequence : {one.get(), two.get()}) {
    ASSERT_TRUE(sequence->Reserve(70).ok());
    RunRows(*sequence, text);
  }
  EXPECT_EQ(held(), 6);
  one->Append(text);
  two->Append(text);
  EXPECT_EQ(held(), 3);  // a snapshot that both hold, and a state each
  RunRest(one.get(), From(0, 100));
  RunRest(two.get(), From(0, 100));
}

TEST_F(StateGroupTest, RoomForAStep) {
  const auto policy = NewGroupPolicy({CacheKind::kState});
  for (const int32_t rows : {1, 2, 31, 32, 33, 64, 100}) {
    int32_t most = 0;
    for (int32_t first = 0; first < kKvBlockTokens; ++first) {
      auto sequence = New(/*cached=*/false);
      for (int32_t count = first; sequence->length() + count <= 500; count = rows) {
        ASSERT_TRUE(sequence->Reserve(count).ok());
        most = std::max(most, held());
        sequence->Append(From(sequence->length(), static_cast<size_t>(count)));
      }
    }
    EXPECT_EQ(most, policy->MostHeld(1000, rows)) << rows;
  }
  EXPECT_EQ(policy->MostHeld(2, 100), 2);
}

}  // namespace
}  // namespace penstock::kv
