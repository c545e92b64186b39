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

#include "common/kv_block.h"

namespace penstock::plain {

inline constexpr int32_t kContext = 200, kGroup = 8;
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
  std::set<int32_t> committed;  // groups
  int64_t now = 0;
  uint64_t evictions = 0;
  std::function<void(int32_t)> forget;  // what the cache knows of a block

  int32_t& References(int32_t block) { return references[static_cast<size_t>(block)]; }
  bool IsCommitted(int32_t block) const { return committed.contains(block / kGroup); }
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
    committed.insert(block / kGroup);
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

struct Pair {
  int32_t full = -1;
  int32_t window = -1;
};

// The prefix cache over both pools.
struct CacheModel {
  struct Tail {
    Pair blocks;
    Ids ids;
  };

  CacheModel(PoolModel* full_pool, PoolModel* window_pool) : full(full_pool), windows(window_pool) {
    full->forget = [this](int32_t block) { ForgetFull(block); };
    if (windows != nullptr) windows->forget = [this](int32_t block) { ForgetWindow(block); };
  }

  PoolModel* full;
  PoolModel* windows;
  std::map<Key, Pair> whole;
  std::map<Key, Tail> tails;                      // by the block before them
  std::map<int32_t, std::pair<bool, Key>> place;  // by full block: is a tail; its key in the map

  Pair& At(int32_t block) {
    const auto& [is_tail, key] = place.at(block);
    return is_tail ? tails.at(key).blocks : whole.at(key);
  }
  void ForgetFull(int32_t block) {
    if (const int32_t window = At(block).window; window >= 0) windows->Evict(window);
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
  void ForgetWindow(int32_t block) {
    for (auto& one : whole) {
      if (one.second.window == block) one.second.window = -1;
    }
    for (auto& one : tails) {
      if (one.second.blocks.window == block) one.second.blocks.window = -1;
    }
  }
  void Know(int32_t block, bool is_tail, const Key& key) {
    full->known.insert(block);
    place[block] = {is_tail, key};
  }
};

struct SequenceModel {
  PoolModel* full;
  PoolModel* windows;  // null: no layer has a window
  int32_t window;
  CacheModel* cache;  // null: nothing is reused
  uint64_t salt = 0;
  Ids text = {};  // length tokens
  std::vector<int32_t> blocks = {};
  std::vector<int32_t> window_blocks = {};

  size_t whole() const { return text.size() / kBlock; }
  // Whether the first token after so many whole blocks sees keys of block `index`, or of later
  // ones.
  bool Sees(size_t after, size_t index) const {
    const auto token = static_cast<int64_t>(after * kBlock);
    const auto last_key = static_cast<int64_t>(index * kBlock + kBlock - 1);
    return token - last_key < window;
  }
  void Push(Pair pair) {
    blocks.push_back(pair.full);
    if (windows != nullptr) window_blocks.push_back(pair.window);
  }
  void Drop(size_t keep) {
    while (blocks.size() > keep) {
      full->Release(blocks.back());
      blocks.pop_back();
      if (windows == nullptr) continue;
      if (window_blocks.back() >= 0) windows->Release(window_blocks.back());
      window_blocks.pop_back();
    }
  }
  void ReleasePassed() {
    for (size_t i = 0; i < window_blocks.size(); ++i) {
      if (window_blocks[i] < 0 || Sees(whole(), i)) continue;
      windows->Release(std::exchange(window_blocks[i], -1));
    }
  }
  // The known blocks that the text can go on after.
  std::vector<Pair> Find(const Ids& ids) const {
    std::vector<Pair> found;
    size_t most = 0;
    for (size_t end = text.size() + kBlock; end < ids.size(); end += kBlock) {
      const auto at = cache->whole.find({salt, FirstOf(ids, end)});
      if (at == cache->whole.end()) break;
      found.push_back(at->second);
      bool there = true;
      for (size_t i = 0; i < found.size(); ++i) {
        const bool seen = Sees(whole() + found.size(), whole() + i);
        there = there && (windows == nullptr || !seen || found[i].window >= 0);
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
    const std::vector<Pair> found = Find(ids);
    const size_t after = whole() + found.size();
    for (Pair one : found) {
      full->Hold(one.full);
      if (!Sees(after, blocks.size())) one.window = -1;
      if (windows != nullptr && one.window >= 0) windows->Hold(one.window);
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
    const auto [pair, rest] = tail->second;
    if (windows != nullptr && pair.window < 0) return;
    if (ids.size() <= text.size() + rest.size() ||
        !std::equal(rest.begin(), rest.end(), ids.begin() + static_cast<ptrdiff_t>(text.size()))) {
      return;
    }
    full->Hold(pair.full);
    full->known.erase(pair.full);
    cache->place.erase(pair.full);
    cache->tails.erase(tail);
    if (windows != nullptr) {
      windows->Hold(pair.window);
      windows->known.erase(pair.window);
    }
    Push(pair);
    text.insert(text.end(), rest.begin(), rest.end());
  }
  bool Reserve(size_t tokens) {
    const size_t needed = (text.size() + tokens + kBlock - 1) / kBlock;
    const size_t missing = needed > blocks.size() ? needed - blocks.size() : 0;
    if (text.size() + tokens > kContext || missing > full->available()) return false;
    if (windows != nullptr && missing > windows->available()) return false;
    while (blocks.size() < needed) {
      const bool first = blocks.empty();
      const int32_t block = full->Take(first ? -1 : blocks.back());
      Push({block, windows == nullptr ? -1 : windows->Take(first ? -1 : window_blocks.back())});
    }
    return true;
  }
  void Append(int32_t id) {
    text.push_back(id);
    if (text.size() % kBlock != 0 || cache == nullptr) return;
    int32_t& block = blocks[whole() - 1];
    const auto [at, is_new] = cache->whole.emplace(Key{salt, text}, Pair{block, -1});
    if (is_new) {
      cache->Know(block, false, at->first);
    } else {
      full->Hold(at->second.full);
      full->Release(block);
      block = at->second.full;
    }
    if (windows == nullptr) return;
    int32_t& own = window_blocks[whole() - 1];
    if (at->second.window < 0) {
      at->second.window = own;
      windows->known.insert(own);
      return;
    }
    windows->Hold(at->second.window);
    windows->Release(std::exchange(own, at->second.window));
  }
  void Fork(const SequenceModel& other, size_t tokens) {
    salt = other.salt;
    text = FirstOf(other.text, std::min(other.whole(), tokens / kBlock) * kBlock);
    for (size_t i = 0; i < whole(); ++i) {
      Push({other.blocks[i], windows != nullptr && Sees(whole(), i) ? other.window_blocks[i] : -1});
      full->Hold(blocks.back());
      if (windows != nullptr && window_blocks.back() >= 0) windows->Hold(window_blocks.back());
    }
    if (HoldsWindow()) return;
    text.clear();
    Drop(0);
  }
  void Truncate(size_t length) {
    const size_t index = length / kBlock;
    if (length % kBlock != 0 && index < whole() &&
        (cache != nullptr || full->References(blocks[index]) > 1)) {
      length = index * kBlock;
    }
    text.resize(length);
    Drop((length + kBlock - 1) / kBlock);
    if (HoldsWindow()) return;
    text.clear();
    Drop(0);
  }
  bool HoldsWindow() {
    std::vector<Pair> again;  // index, window block
    for (size_t i = 0; i < window_blocks.size(); ++i) {
      if (window_blocks[i] >= 0 || !Sees(whole(), i)) continue;
      const int32_t window_block = cache == nullptr ? -1 : cache->At(blocks[i]).window;
      if (window_block < 0) return false;
      again.push_back({static_cast<int32_t>(i), window_block});
    }
    for (const Pair& one : again) {
      windows->Hold(one.window);
      window_blocks[static_cast<size_t>(one.full)] = one.window;
    }
    return true;
  }
  void Release() {
    Drop((text.size() + kBlock - 1) / kBlock);
    if (cache != nullptr && text.size() % kBlock != 0 && whole() > 0) {
      const Key key = {salt, FirstOf(text, whole() * kBlock)};
      if (const auto old = cache->tails.find(key); old != cache->tails.end()) {
        full->Evict(old->second.blocks.full);
      }
      const Pair own = {blocks.back(), windows == nullptr ? -1 : window_blocks.back()};
      cache->tails[key] = {
          own, Ids(text.begin() + static_cast<ptrdiff_t>(whole() * kBlock), text.end())};
      cache->Know(own.full, true, key);
      if (windows != nullptr) windows->known.insert(own.window);
    }
    Drop(0);
    text.clear();
  }
};

}  // namespace penstock::plain
