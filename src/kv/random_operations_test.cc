// Sequences, prefix cache and pool against a plain model of maps and lists, over many random
// operations: which blocks are held, shared, found, evicted and given back.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

#include "kv/plain_model_test_util.h"
#include "kv/sequence.h"

namespace penstock {
namespace {

using plain::CacheModel;
using plain::Ids;
using plain::kBlock;
using plain::kContext;
using plain::kGroup;
using plain::PoolModel;
using plain::SequenceModel;

struct Setting {
  const char* name;
  int32_t blocks;
  PrefixCache::HashFn hash;
  int32_t window_blocks = 0;  // 0: no layer has a window
  int32_t window = 0;
};

class RandomOperations : public testing::TestWithParam<Setting> {
 protected:
  static constexpr size_t kSequences = 6;

  void SetUp() override {
    const Setting& setting = GetParam();
    WindowPool windowed;
    PoolModel* windowed_model = nullptr;
    if (setting.window_blocks > 0) {
      windowed = {&windows_.emplace(setting.window_blocks, kGroup), setting.window};
      windowed_model = &windows_model_.emplace(setting.window_blocks);
    }
    cache_.emplace(&pool_, setting.hash, windowed);
    cache_model_.emplace(&pool_model_, windowed_model);
    for (size_t i = 0; i < kSequences; ++i) {
      const bool cached = i + 2 < kSequences;  // the last two without a cache
      sequences_.push_back(std::make_unique<Sequence>(&pool_, cached ? &*cache_ : nullptr, kContext,
                                                      /*salt=*/0, windowed));
      models_.push_back(
          {&pool_model_, windowed_model, setting.window, cached ? &*cache_model_ : nullptr});
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
  void ReleaseAll();
  void GiveBack();
  void GiveBack(BlockPool* pool, PoolModel* model);
  void EvictOld(BlockPool* pool, PoolModel* model);
  void Check();
  void CheckPool(const BlockPool& pool, PoolModel* model);

  BlockPool pool_{GetParam().blocks, kGroup};
  std::optional<BlockPool> windows_;
  std::optional<PrefixCache> cache_;
  PoolModel pool_model_{GetParam().blocks};
  std::optional<PoolModel> windows_model_;
  std::optional<CacheModel> cache_model_;
  std::mt19937 random_{17};
  std::vector<std::unique_ptr<Sequence>> sequences_;
  std::vector<SequenceModel> models_;
  std::vector<Ids> texts_;
  uint64_t gained_ = 0, shortages_ = 0, given_back_ = 0, forks_ = 0;
};

void RandomOperations::Append(size_t at) {
  const size_t length = models_[at].text.size();
  const size_t room = models_[at].blocks.size() * kBlock - length;
  const size_t most = std::min(room, static_cast<size_t>(kContext) - length);
  const size_t count = most == 0 ? 0 : 1 + Random(most);
  const auto ids = std::span(texts_[at]).subspan(length, count);
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
    pool_.EvictIdleSince(INT64_MAX, pool_.blocks());
    while (!pool_model_.idle.empty()) pool_model_.Evict(pool_model_.idle.front());
  }
  GiveBack(&pool_, &pool_model_);
  if (windows_) GiveBack(&*windows_, &*windows_model_);
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
  for (const int32_t block : given) model->committed.erase(block / kGroup);
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
    if (model.blocks.empty()) {
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
    if (from == at || !model.blocks.empty() || model.cache != models_[from].cache) return;
    texts_[at] = NewText();
    std::ranges::copy(models_[from].text, texts_[at].begin());
    const size_t length = models_[from].text.size();
    const size_t tokens = Random(3) == 0 ? Random(length + 1) : length;
    sequence.Fork(*sequences_[from], static_cast<int32_t>(tokens));
    model.Fork(models_[from], tokens);
    forks_ += !model.blocks.empty();
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
    EvictOld(&pool_, &pool_model_);
    if (windows_) EvictOld(&*windows_, &*windows_model_);
  }
}

void RandomOperations::Check() {
  std::map<int32_t, int32_t> writers, window_writers;
  for (size_t i = 0; i < kSequences; ++i) {
    const Sequence& sequence = *sequences_[i];
    ASSERT_EQ(sequence.length(), static_cast<int32_t>(models_[i].text.size()));
    ASSERT_TRUE(std::ranges::equal(sequence.blocks(), models_[i].blocks));
    ASSERT_TRUE(std::ranges::equal(sequence.window_blocks(), models_[i].window_blocks));
    for (size_t b = models_[i].whole(); b < models_[i].blocks.size(); ++b) {
      const int32_t block = sequence.blocks()[b];
      ASSERT_EQ(++writers[block], 1);
      ASSERT_EQ(pool_.references(block), 1);
      ASSERT_FALSE(pool_.known(block));
      if (!windows_) continue;
      const int32_t window_block = sequence.window_blocks()[b];
      ASSERT_EQ(++window_writers[window_block], 1);
      ASSERT_EQ(windows_->references(window_block), 1);
      ASSERT_FALSE(windows_->known(window_block));
    }
  }
  CheckPool(pool_, &pool_model_);
  if (windows_) CheckPool(*windows_, &*windows_model_);
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
  ASSERT_EQ(counts.committed, static_cast<int32_t>(model->committed.size()) * kGroup);
  ASSERT_EQ(counts.evictions, model->evictions);
}

uint64_t Colliding(uint64_t before, std::span<const int32_t> ids) {
  return (before + static_cast<uint64_t>(ids[0])) % 3;
}

INSTANTIATE_TEST_SUITE_P(Settings, RandomOperations,
                         testing::Values(Setting{"Pressure", 24, nullptr},
                                         Setting{"Room", 120, nullptr},
                                         Setting{"Colliding", 32, Colliding},
                                         Setting{"Windows", 120, nullptr, 120, 40},
                                         Setting{"FewWindows", 120, nullptr, 16, 40},
                                         Setting{"FewOfBoth", 24, nullptr, 16, 33},
                                         Setting{"LongWindows", 32, Colliding, 24, 130}),
                         [](const auto& one) { return one.param.name; });

TEST_P(RandomOperations, DoWhatThePlainModelDoes) {
  for (int i = 0; i < 100000; ++i) {
    Step();
    if (!HasFatalFailure()) Check();
    if (HasFailure()) FAIL() << "after " << i << " operations";
  }
  ReleaseAll();
  Check();
  EXPECT_EQ(pool_.counts().in_use, 0);
  pool_.EvictIdleSince(INT64_MAX, pool_.blocks());
  EXPECT_EQ(pool_.counts().free, pool_.blocks());
  // The operations met what they are to test.
  EXPECT_GT(gained_, 10000u);
  EXPECT_GT(forks_, 100u);
  EXPECT_GT(given_back_, 100u);
  EXPECT_GT(pool_.counts().evictions, 1000u);
  if (GetParam().blocks < 100) EXPECT_GT(shortages_, 1000u);
  if (!windows_) return;
  EXPECT_EQ(windows_->counts().free, windows_->blocks());
  EXPECT_GT(windows_->counts().evictions, 1000u);
  if (windows_->blocks() < 100) EXPECT_GT(shortages_, 1000u);
}

}  // namespace
}  // namespace penstock
