// Sequences, prefix cache and pool against a plain model of maps and lists, over many random
// operations: which blocks are held, shared, found, evicted and given back.
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "kv/sequence.h"

namespace penstock {
namespace {

constexpr int32_t kContext = 200, kGroup = 8;
constexpr size_t kBlock = kKvBlockTokens;

using Ids = std::vector<int32_t>;
using Key = std::pair<uint64_t, Ids>;  // salt, all tokens up to the end of a block

// What a pool and its cache should do.
struct PoolModel {
  explicit PoolModel(int32_t blocks) : references(static_cast<size_t>(blocks)) {
    for (int32_t block = 0; block < blocks; ++block) free.insert(block);
  }

  struct Tail {
    int32_t block;
    Ids ids;
  };

  std::vector<int32_t> references;
  std::set<int32_t> free;
  std::list<int32_t> idle;  // oldest first
  std::map<int32_t, int64_t> idle_since;
  std::map<Key, int32_t> whole;
  std::map<Key, Tail> tails;                      // by the block before them
  std::map<int32_t, std::pair<bool, Key>> known;  // by block: is a tail; its key in the map
  std::set<int32_t> committed;                    // groups
  int64_t now = 0;
  uint64_t evictions = 0;

  int32_t& References(int32_t block) { return references[static_cast<size_t>(block)]; }
  bool IsCommitted(int32_t block) const { return committed.count(block / kGroup) > 0; }

  int32_t Take(int32_t after) {
    if (free.empty()) Evict(idle.front());
    const bool next = after >= 0 && free.count(after + 1) > 0;
    const auto there =
        std::ranges::find_if(free, [&](int32_t block) { return IsCommitted(block); });
    int32_t block = *free.begin();
    if (next && (there == free.end() || IsCommitted(after + 1))) {
      block = after + 1;
    } else if (there != free.end()) {
      block = *there;
    }
    free.erase(block);
    committed.insert(block / kGroup);
    References(block) = 1;
    return block;
  }
  void Hold(int32_t block) {
    if (References(block)++ == 0) idle.remove(block);
  }
  void Release(int32_t block) {
    if (--References(block) > 0) return;
    if (known.count(block) == 0) {
      free.insert(block);
      return;
    }
    idle.push_back(block);
    idle_since[block] = now;
  }
  void Evict(int32_t block) {
    ASSERT_EQ(References(block), 0);
    const auto [is_tail, key] = known.at(block);
    if (is_tail) {
      tails.erase(key);
    } else {
      // A child is useless without its parent.
      const auto after = whole.upper_bound(key);
      const bool child =
          after != whole.end() && after->first.first == key.first &&
          after->first.second.size() > key.second.size() &&
          std::equal(key.second.begin(), key.second.end(), after->first.second.begin());
      EXPECT_FALSE(child || tails.count(key) > 0);
      whole.erase(key);
    }
    known.erase(block);
    idle.remove(block);
    free.insert(block);
    ++evictions;
  }
};

// What a sequence should do.
struct SequenceModel {
  PoolModel* pool;
  bool cached;
  uint64_t salt = 0;
  Ids text = {};  // length tokens
  std::vector<int32_t> blocks = {};

  size_t whole() const { return text.size() / kBlock; }
  Key KeyOf(size_t tokens) const {
    return {salt, Ids(text.begin(), text.begin() + static_cast<ptrdiff_t>(tokens))};
  }
  void Drop(size_t keep) {
    for (; blocks.size() > keep; blocks.pop_back()) pool->Release(blocks.back());
  }
  size_t TakeCached(Ids ids) {
    const size_t before = text.size();
    if (!cached || before % kBlock != 0 || ids.size() <= before) return 0;
    Drop(whole());
    while (ids.size() > text.size() + kBlock) {
      const Key key = {
          salt, Ids(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(text.size() + kBlock))};
      const auto found = pool->whole.find(key);
      if (found == pool->whole.end()) break;
      text = key.second;
      blocks.push_back(found->second);
      pool->Hold(found->second);
    }
    const auto tail = pool->tails.find({salt, text});
    if (text.empty() || tail == pool->tails.end()) return text.size() - before;
    const auto [block, rest] = tail->second;
    if (ids.size() <= text.size() + rest.size() ||
        !std::equal(rest.begin(), rest.end(), ids.begin() + static_cast<ptrdiff_t>(text.size()))) {
      return text.size() - before;
    }
    pool->Hold(block);
    pool->known.erase(block);
    pool->tails.erase(tail);
    blocks.push_back(block);
    text.insert(text.end(), rest.begin(), rest.end());
    return text.size() - before;
  }
  bool Reserve(size_t tokens) {
    const size_t needed = (text.size() + tokens + kBlock - 1) / kBlock;
    const size_t missing = needed > blocks.size() ? needed - blocks.size() : 0;
    if (text.size() + tokens > kContext || missing > pool->free.size() + pool->idle.size()) {
      return false;
    }
    while (blocks.size() < needed)
      blocks.push_back(pool->Take(blocks.empty() ? -1 : blocks.back()));
    return true;
  }
  void Append(int32_t id) {
    text.push_back(id);
    if (text.size() % kBlock != 0 || !cached) return;
    int32_t& block = blocks[whole() - 1];
    const auto [at, is_new] = pool->whole.emplace(KeyOf(text.size()), block);
    if (is_new) {
      pool->known[block] = {false, at->first};
      return;
    }
    pool->Hold(at->second);
    pool->Release(block);
    block = at->second;
  }
  void Fork(const SequenceModel& other) {
    salt = other.salt;
    text.assign(other.text.begin(),
                other.text.begin() + static_cast<ptrdiff_t>(other.whole() * kBlock));
    blocks.assign(other.blocks.begin(),
                  other.blocks.begin() + static_cast<ptrdiff_t>(other.whole()));
    for (const int32_t block : blocks) pool->Hold(block);
  }
  void Truncate(size_t length) {
    const size_t index = length / kBlock;
    if (length % kBlock != 0 && index < whole() &&
        (cached || pool->References(blocks[index]) > 1)) {
      length = index * kBlock;
    }
    text.resize(length);
    Drop((length + kBlock - 1) / kBlock);
  }
  void Release() {
    Drop((text.size() + kBlock - 1) / kBlock);
    if (cached && text.size() % kBlock != 0 && whole() > 0) {
      const Key key = KeyOf(whole() * kBlock);
      if (const auto old = pool->tails.find(key); old != pool->tails.end()) {
        pool->Evict(old->second.block);
      }
      pool->tails[key] = {blocks.back(),
                          Ids(text.begin() + static_cast<ptrdiff_t>(whole() * kBlock), text.end())};
      pool->known[blocks.back()] = {true, key};
    }
    Drop(0);
    text.clear();
  }
};

struct Setting {
  const char* name;
  int32_t blocks;
  PrefixCache::HashFn hash;
};

class RandomOperations : public testing::TestWithParam<Setting> {
 protected:
  static constexpr size_t kSequences = 6;

  void SetUp() override {
    for (size_t i = 0; i < kSequences; ++i) {
      const bool cached = i + 2 < kSequences;  // the last two without a cache
      sequences_.push_back(
          std::make_unique<Sequence>(&pool_, cached ? &cache_ : nullptr, kContext));
      models_.push_back({&pool_model_, cached});
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
  void Check();

  BlockPool pool_{GetParam().blocks, kGroup};
  PrefixCache cache_{&pool_, GetParam().hash};
  PoolModel pool_model_{GetParam().blocks};
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
  const int32_t keep = static_cast<int32_t>(Random(20));
  std::vector<int32_t> given(Random(40));
  given.resize(pool_.Uncommit(keep, given));
  given_back_ += given.size();
  for (const int32_t block : given) {
    EXPECT_EQ(pool_model_.free.count(block), 1u);
    EXPECT_TRUE(pool_model_.IsCommitted(block));
  }
  for (const int32_t block : given) pool_model_.committed.erase(block / kGroup);
  const auto left = std::ranges::count_if(
      pool_model_.free, [&](int32_t block) { return pool_model_.IsCommitted(block); });
  if (!given.empty()) EXPECT_GE(left, keep);
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
    const Ids ids(texts_[at].begin(), texts_[at].begin() + Random(kContext + 1));
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
    if (from == at || !model.blocks.empty() || model.cached != models_[from].cached) return;
    texts_[at] = NewText();
    std::ranges::copy(models_[from].text, texts_[at].begin());
    sequence.Fork(*sequences_[from]);
    model.Fork(models_[from]);
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
    pool_.SetTime(++pool_model_.now);
    const int64_t time = pool_model_.now - Random(40);
    int32_t most = static_cast<int32_t>(Random(5));
    const int32_t evicted = pool_.EvictIdleSince(time, most);
    for (int32_t i = 0; i < evicted; ++i) {
      ASSERT_LT(pool_model_.idle_since.at(pool_model_.idle.front()), time);
      pool_model_.Evict(pool_model_.idle.front());
    }
    if (evicted < most && !pool_model_.idle.empty()) {
      ASSERT_GE(pool_model_.idle_since.at(pool_model_.idle.front()), time);
    }
  }
}

void RandomOperations::Check() {
  std::map<int32_t, int32_t> writers;
  for (size_t i = 0; i < kSequences; ++i) {
    ASSERT_EQ(sequences_[i]->length(), static_cast<int32_t>(models_[i].text.size()));
    ASSERT_TRUE(std::ranges::equal(sequences_[i]->blocks(), models_[i].blocks));
    for (size_t b = models_[i].whole(); b < models_[i].blocks.size(); ++b) {
      const int32_t block = sequences_[i]->blocks()[b];
      ASSERT_EQ(++writers[block], 1);
      ASSERT_EQ(pool_.references(block), 1);
      ASSERT_FALSE(pool_.known(block));
    }
  }
  int32_t in_use = 0;
  for (int32_t block = 0; block < pool_.blocks(); ++block) {
    ASSERT_EQ(pool_.references(block), pool_model_.References(block)) << block;
    ASSERT_EQ(pool_.known(block), pool_model_.known.count(block) > 0) << block;
    in_use += pool_.references(block) > 0;
  }
  const BlockCounts counts = pool_.counts();
  ASSERT_EQ(counts.in_use, in_use);
  ASSERT_EQ(counts.idle, static_cast<int32_t>(pool_model_.idle.size()));
  ASSERT_EQ(counts.free, static_cast<int32_t>(pool_model_.free.size()));
  ASSERT_EQ(counts.committed, static_cast<int32_t>(pool_model_.committed.size()) * kGroup);
  ASSERT_EQ(counts.evictions, pool_model_.evictions);
}

INSTANTIATE_TEST_SUITE_P(Settings, RandomOperations,
                         testing::Values(Setting{"Pressure", 24, nullptr},
                                         Setting{"Room", 120, nullptr},
                                         Setting{"Colliding", 32,
                                                 [](uint64_t before, std::span<const int32_t> ids) {
                                                   return (before + static_cast<uint64_t>(ids[0])) %
                                                          3;
                                                 }}),
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
}

}  // namespace
}  // namespace penstock
