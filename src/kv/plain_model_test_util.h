// What pools, prefix cache and sequences should do, as a plain model of maps and lists: for tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <list>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/kv_block.h"

namespace penstock::kv::plain {

inline constexpr int32_t kContext = 200, kPage = 8;
inline constexpr size_t kBlock = kKvBlockTokens;

using Ids = std::vector<int32_t>;
using Key = std::pair<uint64_t, Ids>;  // salt, all tokens up to the end of a block

inline Ids FirstOf(const Ids& ids, size_t count) {
  return {ids.begin(), ids.begin() + static_cast<ptrdiff_t>(count)};
}

struct PoolModel {
  explicit PoolModel(int32_t blocks) : references(static_cast<size_t>(blocks)) {
    for (int32_t block = 0; block < blocks; ++block) free.insert(block);
  }

  std::vector<int32_t> references;
  std::set<int32_t> free;
  std::list<int32_t> idle;  // oldest first
  std::map<int32_t, int64_t> idle_since;
  std::set<int32_t> known;
  std::set<int32_t> committed;  // pages
  int64_t now = 0;
  uint64_t evictions = 0;
  std::function<void(int32_t)> forget;  // what the cache knows of a block

  int32_t& References(int32_t block) { return references[static_cast<size_t>(block)]; }
  bool IsCommitted(int32_t block) const { return committed.contains(block / kPage); }
  size_t available() const { return free.size() + idle.size(); }

  int32_t Take(int32_t after) {
    if (free.empty()) Evict(idle.front());
    const bool next = after >= 0 && free.contains(after + 1);
    const auto there =
        std::ranges::find_if(free, [&](int32_t block) { return IsCommitted(block); });
    int32_t block = *free.begin();
    if (next && (there == free.end() || IsCommitted(after + 1))) {
      block = after + 1;
    } else if (there != free.end()) {
      block = *there;
    }
    free.erase(block);
    committed.insert(block / kPage);
    References(block) = 1;
    return block;
  }
  void Hold(int32_t block) {
    if (References(block)++ == 0) idle.remove(block);
  }
  void Release(int32_t block) {
    if (--References(block) > 0) return;
    if (!known.contains(block)) {
      free.insert(block);
      return;
    }
    idle.push_back(block);
    idle_since[block] = now;
  }
  void Evict(int32_t block) {
    ASSERT_EQ(References(block), 0);
    known.erase(block);
    idle.remove(block);
    free.insert(block);
    ++evictions;
    forget(block);
  }
};

// A group of the cache: its blocks, and what its layers read.
struct GroupModel {
  PoolModel pool;
  CacheGroup group;

  // Whether the first token after so many whole blocks reads block `index`.
  bool Reads(size_t after, size_t index) const {
    switch (group.kind) {
      case CacheKind::kFull:
        return true;
      case CacheKind::kWindow: {
        const auto token = static_cast<int64_t>(after * kBlock);
        const auto last_key = static_cast<int64_t>(index * kBlock + kBlock - 1);
        return token - last_key < group.window;
      }
      case CacheKind::kState:
        return index + 1 >= after;
    }
    return true;
  }
};
using GroupModels = std::vector<GroupModel>;

using Blocks = std::vector<int32_t>;  // one of each group; -1: none

// The prefix cache over all groups.
struct CacheModel {
  struct Tail {
    Blocks blocks;
    Ids ids;
  };

  explicit CacheModel(GroupModels* all) : groups(*all) {
    groups[0].pool.forget = [this](int32_t block) { ForgetFull(block); };
    for (size_t g = 1; g < groups.size(); ++g) {
      groups[g].pool.forget = [this, g](int32_t block) { Forget(g, block); };
    }
  }

  GroupModels& groups;
  std::map<Key, Blocks> whole;
  std::map<Key, Tail> tails;                      // by the block before them
  std::map<int32_t, std::pair<bool, Key>> place;  // by full block: is a tail; its key in the map

  Blocks& At(int32_t block) {
    const auto& [is_tail, key] = place.at(block);
    return is_tail ? tails.at(key).blocks : whole.at(key);
  }
  void ForgetFull(int32_t block) {
    const Blocks beside = At(block);
    for (size_t g = 1; g < groups.size(); ++g) {
      if (beside[g] >= 0) groups[g].pool.Evict(beside[g]);
    }
    const auto [is_tail, key] = place.at(block);
    place.erase(block);
    if (is_tail) {
      tails.erase(key);
      return;
    }
    // A child is useless without its parent.
    const auto after = whole.upper_bound(key);
    const bool child =
        after != whole.end() && after->first.first == key.first &&
        after->first.second.size() > key.second.size() &&
        std::equal(key.second.begin(), key.second.end(), after->first.second.begin());
    EXPECT_FALSE(child || tails.contains(key));
    whole.erase(key);
  }
  void Forget(size_t group, int32_t block) {
    for (auto& one : whole) {
      if (one.second[group] == block) one.second[group] = -1;
    }
    for (auto& one : tails) {
      if (one.second.blocks[group] == block) one.second.blocks[group] = -1;
    }
  }
  void Know(int32_t block, bool is_tail, const Key& key) {
    groups[0].pool.known.insert(block);
    place[block] = {is_tail, key};
  }
};

struct SequenceModel {
  GroupModels* groups;
  CacheModel* cache;  // null: nothing is reused
  uint64_t salt = 0;
  Ids text = {};  // length tokens
  std::vector<Ids> tables = std::vector<Ids>(groups->size());

  PoolModel& pool(size_t group) { return (*groups)[group].pool; }
  size_t whole() const { return text.size() / kBlock; }
  size_t blocks() const { return tables[0].size(); }
  Blocks At(size_t index) const {
    Blocks blocks;
    for (const Ids& table : tables) blocks.push_back(table[index]);
    return blocks;
  }
  void Push(const Blocks& blocks) {
    for (size_t g = 0; g < tables.size(); ++g) tables[g].push_back(blocks[g]);
  }
  void Hold(const Blocks& blocks) {
    for (size_t g = 0; g < tables.size(); ++g) {
      if (blocks[g] >= 0) pool(g).Hold(blocks[g]);
    }
  }
  void Drop(size_t keep) {
    for (size_t g = 0; g < tables.size(); ++g) {
      for (; tables[g].size() > keep; tables[g].pop_back()) {
        if (tables[g].back() >= 0) pool(g).Release(tables[g].back());
      }
    }
  }
  void Clear() {
    text.clear();
    Drop(0);
  }
  void ReleasePassed() {
    for (size_t g = 0; g < tables.size(); ++g) {
      for (size_t i = 0; i < tables[g].size(); ++i) {
        if (tables[g][i] < 0 || (*groups)[g].Reads(whole(), i)) continue;
        pool(g).Release(std::exchange(tables[g][i], -1));
      }
    }
  }
  // The known blocks that the text can go on after.
  std::vector<Blocks> Find(const Ids& ids) const {
    std::vector<Blocks> found;
    size_t most = 0;
    for (size_t end = text.size() + kBlock; end < ids.size(); end += kBlock) {
      const auto at = cache->whole.find({salt, FirstOf(ids, end)});
      if (at == cache->whole.end()) break;
      found.push_back(at->second);
      bool there = true;
      for (size_t i = 0; i < found.size(); ++i) {
        for (size_t g = 0; g < tables.size(); ++g) {
          const bool read = (*groups)[g].Reads(whole() + found.size(), whole() + i);
          there = there && (!read || found[i][g] >= 0);
        }
      }
      if (there) most = found.size();
    }
    found.resize(most);
    return found;
  }
  size_t TakeCached(const Ids& ids) {
    const size_t before = text.size();
    if (cache == nullptr || before % kBlock != 0 || ids.size() <= before) return 0;
    Drop(whole());
    const std::vector<Blocks> found = Find(ids);
    const size_t after = whole() + found.size();
    for (Blocks one : found) {
      for (size_t g = 0; g < tables.size(); ++g) {
        if (!(*groups)[g].Reads(after, blocks())) one[g] = -1;
      }
      Hold(one);
      Push(one);
    }
    text = FirstOf(ids, after * kBlock);
    ReleasePassed();
    TakeTail(ids);
    return text.size() - before;
  }
  void TakeTail(const Ids& ids) {
    const auto tail = cache->tails.find({salt, text});
    if (text.empty() || tail == cache->tails.end()) return;
    const auto [taken, rest] = tail->second;
    if (std::ranges::count(taken, -1) > 0) return;
    if (ids.size() <= text.size() + rest.size() ||
        !std::equal(rest.begin(), rest.end(), ids.begin() + static_cast<ptrdiff_t>(text.size()))) {
      return;
    }
    Hold(taken);
    for (size_t g = 0; g < tables.size(); ++g) pool(g).known.erase(taken[g]);
    cache->place.erase(taken[0]);
    cache->tails.erase(tail);
    Push(taken);
    text.insert(text.end(), rest.begin(), rest.end());
  }
  bool Reserve(size_t tokens) {
    const size_t needed = (text.size() + tokens + kBlock - 1) / kBlock;
    const size_t missing = needed > blocks() ? needed - blocks() : 0;
    if (text.size() + tokens > kContext) return false;
    for (size_t g = 0; g < tables.size(); ++g) {
      if (missing > pool(g).available()) return false;
    }
    while (blocks() < needed) {
      const bool first = tables[0].empty();
      for (size_t g = 0; g < tables.size(); ++g) {
        tables[g].push_back(pool(g).Take(first ? -1 : tables[g].back()));
      }
    }
    return true;
  }
  void Append(int32_t id) {
    text.push_back(id);
    if (text.size() % kBlock != 0 || cache == nullptr) return;
    const size_t last = whole() - 1;
    const auto [at, is_new] = cache->whole.emplace(Key{salt, text}, Blocks(tables.size(), -1));
    for (size_t g = 0; g < tables.size(); ++g) {
      int32_t& own = tables[g][last];
      int32_t& known = at->second[g];
      if (known < 0) {
        known = own;
        pool(g).known.insert(own);
      } else {
        pool(g).Hold(known);
        pool(g).Release(std::exchange(own, known));
      }
    }
    if (is_new) cache->Know(tables[0][last], false, at->first);
  }
  void Fork(const SequenceModel& other, size_t tokens) {
    salt = other.salt;
    text = FirstOf(other.text, std::min(other.whole(), tokens / kBlock) * kBlock);
    for (size_t i = 0; i < whole(); ++i) {
      Blocks shared = other.At(i);
      for (size_t g = 0; g < tables.size(); ++g) {
        if (!(*groups)[g].Reads(whole(), i)) shared[g] = -1;
      }
      Hold(shared);
      Push(shared);
    }
    if (!HoldsNeeded()) Clear();
  }
  void Truncate(size_t length) {
    const size_t index = length / kBlock;
    if (length % kBlock != 0 && index < whole() &&
        (cache != nullptr || pool(0).References(tables[0][index]) > 1)) {
      length = index * kBlock;
    }
    for (const GroupModel& one : *groups) {
      if (one.group.kind == CacheKind::kState && length < text.size()) length = index * kBlock;
    }
    text.resize(length);
    Drop((length + kBlock - 1) / kBlock);
    if (!HoldsNeeded()) Clear();
  }
  bool HoldsNeeded() {
    for (size_t g = 0; g < tables.size(); ++g) {
      Ids again;
      for (size_t i = 0; i < tables[g].size(); ++i) {
        if (tables[g][i] >= 0 || !(*groups)[g].Reads(whole(), i)) continue;
        const int32_t known = cache == nullptr ? -1 : cache->At(tables[0][i])[g];
        if (known < 0) return false;
        again.push_back(static_cast<int32_t>(i));
      }
      // In the order of Sequence, from the last.
      for (auto i = again.rbegin(); i != again.rend(); ++i) {
        int32_t& block = tables[g][static_cast<size_t>(*i)];
        block = cache->At(tables[0][static_cast<size_t>(*i)])[g];
        pool(g).Hold(block);
      }
    }
    return true;
  }
  void Release() {
    Drop((text.size() + kBlock - 1) / kBlock);
    if (cache != nullptr && text.size() % kBlock != 0 && whole() > 0) {
      const Key key = {salt, FirstOf(text, whole() * kBlock)};
      if (const auto old = cache->tails.find(key); old != cache->tails.end()) {
        pool(0).Evict(old->second.blocks[0]);
      }
      const Blocks own = At(blocks() - 1);
      cache->tails[key] = {
          own, Ids(text.begin() + static_cast<ptrdiff_t>(whole() * kBlock), text.end())};
      for (size_t g = 0; g < tables.size(); ++g) pool(g).known.insert(own[g]);
      cache->Know(own[0], true, key);
    }
    Clear();
  }
};

}  // namespace penstock::kv::plain
