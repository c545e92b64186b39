// Sequences, prefix cache and pool against a plain model of maps and lists, over many random
// operations: which blocks are held, shared, found, evicted and given back. Where there is a group
// of states, a made-up recurrent layer runs over it: its states are those of the texts, whichever
// way their blocks came.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "kv/plain_model_test_util.h"
#include "kv/sequence.h"

namespace penstock::kv {
namespace {

using plain::CacheModel;
using plain::GroupModels;
using plain::Ids;
using plain::kBlock;
using plain::kContext;
using plain::kPage;
using plain::PoolModel;
using plain::SequenceModel;

struct Setting {
  const char* name;
  PrefixCache::HashFn hash;
  std::vector<CacheGroup> groups;
  std::vector<int32_t> blocks;
};

constexpr CacheGroup kState = {CacheKind::kState};
constexpr CacheGroup Window(int32_t tokens) { return {CacheKind::kWindow, tokens}; }

class RandomOperations : public testing::TestWithParam<Setting> {
 protected:
  static constexpr size_t kSequences = 6;

  void SetUp() override {
    const Setting& setting = GetParam();
    for (size_t g = 0; g < setting.groups.size(); ++g) {
      group_models_.push_back({PoolModel(setting.blocks[g]), setting.groups[g]});
    }
    cache_.emplace(&pools_, setting.hash);
    cache_model_.emplace(&group_models_);
    for (size_t i = 0; i < kSequences; ++i) {
      const bool cached = i + 2 < kSequences;  // the last two without a cache
      sequences_.push_back(
          std::make_unique<Sequence>(&pools_, cached ? &*cache_ : nullptr, kContext));
      models_.push_back({&group_models_, cached ? &*cache_model_ : nullptr});
      texts_.push_back(NewText());
    }
  }
  uint32_t Random(size_t below) { return static_cast<uint32_t>(random_() % below); }

  // Texts that often begin in the same way and part anywhere.
  Ids NewText() {
    Ids ids;
    int32_t variant = static_cast<int32_t>(Random(2));
    for (int32_t at = 0; at < kContext; ++at) {
      if (at % 8 == 5 && Random(8) == 0) variant = static_cast<int32_t>(Random(3));
      ids.push_back(at + variant * 1000);
    }
    return ids;
  }

  void Step();
  void Append(size_t at);
  void RunRecurrentLayer(size_t at, std::span<const int32_t> ids);
  void ReleaseAll();
  void GiveBack();
  void GiveBack(BlockPool* pool, PoolModel* model);
  void EvictOld(BlockPool* pool, PoolModel* model);
  void Check();
  void CheckPool(const BlockPool& pool, PoolModel* model);

  CachePools pools_{GetParam().groups, GetParam().blocks, kPage};
  std::optional<PrefixCache> cache_;
  GroupModels group_models_;
  std::optional<CacheModel> cache_model_;
  std::map<int32_t, uint64_t> states_;  // by block of the group of states
  std::mt19937 random_{17};
  std::vector<std::unique_ptr<Sequence>> sequences_;
  std::vector<SequenceModel> models_;
  std::vector<Ids> texts_;
  uint64_t gained_ = 0, shortages_ = 0, given_back_ = 0, forks_ = 0;
};

uint64_t NextState(uint64_t state, int32_t id) {
  return (state ^ static_cast<uint64_t>(id)) * 0x9e3779b97f4a7c15 + 1;
}

// As a backend would: reads the state after the last token, writes those at the ends of blocks and
// the one after the step. What it read is the state of the text.
void RandomOperations::RunRecurrentLayer(size_t at, std::span<const int32_t> ids) {
  for (size_t g = 0; g < pools_.size(); ++g) {
    if (pools_.group(g) != kState) continue;
    const BlockTable& table = sequences_[at]->blocks(g);
    size_t past = models_[at].text.size();
    uint64_t want = 0;
    for (const int32_t id : models_[at].text) want = NextState(want, id);
    uint64_t state = past == 0 ? 0 : states_[table[(past - 1) / kBlock]];
    ASSERT_EQ(state, want) << "sequence " << at << " of " << past << " tokens";
    for (const int32_t id : ids) {
      state = NextState(state, id);
      states_[table[past++ / kBlock]] = state;
    }
  }
}

void RandomOperations::Append(size_t at) {
  const size_t length = models_[at].text.size();
  const size_t room = models_[at].blocks() * kBlock - length;
  const size_t most = std::min(room, static_cast<size_t>(kContext) - length);
  const size_t count = most == 0 ? 0 : 1 + Random(most);
  const auto ids = std::span(texts_[at]).subspan(length, count);
  RunRecurrentLayer(at, ids);
  sequences_[at]->Append(ids);
  for (const int32_t id : ids) models_[at].Append(id);
  models_[at].ReleasePassed();
}

void RandomOperations::ReleaseAll() {
  for (size_t i = 0; i < kSequences; ++i) {
    sequences_[i]->Release();
    models_[i].Release();
  }
}

void RandomOperations::GiveBack() {
  if (Random(20) == 0) {  // nothing to do for a while
    ReleaseAll();
    PoolModel& first = group_models_[0].pool;
    pools_[0].EvictIdleSince(INT64_MAX, pools_[0].blocks());
    while (!first.idle.empty()) first.Evict(first.idle.front());
  }
  for (size_t g = 0; g < pools_.size(); ++g) GiveBack(&pools_[g], &group_models_[g].pool);
}

void RandomOperations::GiveBack(BlockPool* pool, PoolModel* model) {
  const int32_t keep = static_cast<int32_t>(Random(20));
  std::vector<int32_t> given(Random(40));
  given.resize(pool->Uncommit(keep, given));
  given_back_ += given.size();
  for (const int32_t block : given) {
    EXPECT_EQ(model->free.count(block), 1u);
    EXPECT_TRUE(model->IsCommitted(block));
  }
  for (const int32_t block : given) model->committed.erase(block / kPage);
  const auto left =
      std::ranges::count_if(model->free, [&](int32_t block) { return model->IsCommitted(block); });
  if (!given.empty()) EXPECT_GE(left, keep);
}

void RandomOperations::EvictOld(BlockPool* pool, PoolModel* model) {
  pool->SetTime(++model->now);
  const int64_t time = model->now - Random(40);
  int32_t most = static_cast<int32_t>(Random(5));
  const int32_t evicted = pool->EvictIdleSince(time, most);
  for (int32_t i = 0; i < evicted; ++i) {
    ASSERT_LT(model->idle_since.at(model->idle.front()), time);
    model->Evict(model->idle.front());
  }
  if (evicted < most && !model->idle.empty()) {
    ASSERT_GE(model->idle_since.at(model->idle.front()), time);
  }
}

void RandomOperations::Step() {
  const size_t at = Random(kSequences);
  Sequence& sequence = *sequences_[at];
  SequenceModel& model = models_[at];
  const uint32_t kind = Random(100);
  if (kind < 12) {
    if (model.tables[0].empty()) {
      texts_[at] = NewText();
      model.salt = Random(4) == 0;
      sequence.SetSalt(model.salt);
    }
    const Ids ids = plain::FirstOf(texts_[at], Random(kContext + 1));
    const size_t gained = model.TakeCached(ids);
    ASSERT_EQ(sequence.TakeCached(ids), static_cast<int32_t>(gained));
    gained_ += gained;
  } else if (kind < 45) {
    const auto tokens = static_cast<int32_t>(Random(Random(3) == 0 ? 120 : 8));
    const bool fits = model.Reserve(static_cast<size_t>(tokens));
    ASSERT_EQ(sequence.Reserve(tokens).ok(), fits);
    shortages_ += !fits;
  } else if (kind < 80) {
    Append(at);
  } else if (kind < 84) {
    const size_t from = Random(kSequences);
    if (from == at || !model.tables[0].empty() || model.cache != models_[from].cache) return;
    texts_[at] = NewText();
    std::ranges::copy(models_[from].text, texts_[at].begin());
    const size_t length = models_[from].text.size();
    const size_t tokens = Random(3) == 0 ? Random(length + 1) : length;
    sequence.Fork(*sequences_[from], static_cast<int32_t>(tokens));
    model.Fork(models_[from], tokens);
    forks_ += !model.tables[0].empty();
  } else if (kind < 87) {
    const size_t length = Random(model.text.size() + 1);
    model.Truncate(length);
    ASSERT_EQ(sequence.Truncate(static_cast<int32_t>(length)),
              static_cast<int32_t>(model.text.size()));
  } else if (kind < 94) {
    sequence.Release();
    model.Release();
  } else if (kind < 98) {
    GiveBack();
  } else {
    for (size_t g = 0; g < pools_.size(); ++g) EvictOld(&pools_[g], &group_models_[g].pool);
  }
}

void RandomOperations::Check() {
  std::vector<std::map<int32_t, int32_t>> writers(pools_.size());
  for (size_t i = 0; i < kSequences; ++i) {
    const Sequence& sequence = *sequences_[i];
    ASSERT_EQ(sequence.length(), static_cast<int32_t>(models_[i].text.size()));
    for (size_t g = 0; g < pools_.size(); ++g) {
      ASSERT_EQ(sequence.blocks(g), models_[i].tables[g]);
      for (size_t b = models_[i].whole(); b < models_[i].blocks(); ++b) {
        const int32_t block = sequence.blocks(g)[b];
        ASSERT_EQ(++writers[g][block], 1);
        ASSERT_EQ(pools_[g].references(block), 1);
        ASSERT_FALSE(pools_[g].known(block));
      }
    }
  }
  for (size_t g = 0; g < pools_.size(); ++g) CheckPool(pools_[g], &group_models_[g].pool);
}

void RandomOperations::CheckPool(const BlockPool& pool, PoolModel* model) {
  int32_t in_use = 0;
  for (int32_t block = 0; block < pool.blocks(); ++block) {
    ASSERT_EQ(pool.references(block), model->References(block)) << block;
    ASSERT_EQ(pool.known(block), model->known.contains(block)) << block;
    in_use += pool.references(block) > 0;
  }
  const BlockCounts counts = pool.counts();
  ASSERT_EQ(counts.in_use, in_use);
  ASSERT_EQ(counts.idle, static_cast<int32_t>(model->idle.size()));
  ASSERT_EQ(counts.free, static_cast<int32_t>(model->free.size()));
  ASSERT_EQ(counts.committed, static_cast<int32_t>(model->committed.size()) * kPage);
  ASSERT_EQ(counts.evictions, model->evictions);
}

uint64_t Colliding(uint64_t before, std::span<const int32_t> ids) {
  return (before + static_cast<uint64_t>(ids[0])) % 3;
}

INSTANTIATE_TEST_SUITE_P(
    Settings, RandomOperations,
    testing::Values(
        Setting{"Pressure", nullptr, {kFullGroup}, {24}},
        Setting{"Room", nullptr, {kFullGroup}, {120}},
        Setting{"Colliding", Colliding, {kFullGroup}, {32}},
        Setting{"Windows", nullptr, {kFullGroup, Window(40)}, {120, 120}},
        Setting{"FewWindows", nullptr, {kFullGroup, Window(40)}, {120, 16}},
        Setting{"FewOfBoth", nullptr, {kFullGroup, Window(33)}, {24, 16}},
        Setting{"LongWindows", Colliding, {kFullGroup, Window(130)}, {32, 24}},
        Setting{"States", nullptr, {kFullGroup, kState}, {120, 120}},
        Setting{"FewStates", nullptr, {kFullGroup, kState}, {120, 16}},
        Setting{"StatesAndWindows", nullptr, {kFullGroup, kState, Window(70)}, {64, 24, 24}}),
    [](const auto& one) { return one.param.name; });

TEST_P(RandomOperations, DoWhatThePlainModelDoes) {
  for (int i = 0; i < 100000; ++i) {
    Step();
    if (!HasFatalFailure()) Check();
    if (HasFailure()) FAIL() << "after " << i << " operations";
  }
  ReleaseAll();
  Check();
  EXPECT_EQ(pools_[0].counts().in_use, 0);
  pools_[0].EvictIdleSince(INT64_MAX, pools_[0].blocks());
  // The operations met what they are to test.
  EXPECT_GT(gained_, 10000u);
  EXPECT_GT(forks_, 100u);
  EXPECT_GT(given_back_, 100u);
  for (size_t g = 0; g < pools_.size(); ++g) {
    EXPECT_EQ(pools_[g].counts().free, pools_[g].blocks());
    EXPECT_GT(pools_[g].counts().evictions, 1000u);
    if (pools_[g].blocks() < 100) {
      EXPECT_GT(shortages_, 1000u);
    }
  }
}

}  // namespace
}  // namespace penstock::kv
