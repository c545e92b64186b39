// Tokens and ids, both ways: one string pool, an open-addressed hash, and a byte trie.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/seeded_hash.h"

namespace penstock::text {

// String to id; immutable after Build. About 2 slots a token; keys live in one pool.
class Vocabulary {
 public:
  // Later entries win over earlier ones of the same token, as in a JSON object.
  void Add(std::string_view token, int32_t id);
  void Build();

  int32_t Find(std::string_view token) const;  // -1: not there
  std::string_view TokenOf(int32_t id) const;  // "" if there is none
  bool HasId(int32_t id) const { return id >= 0 && size_t(id) < by_id_.size() && by_id_[id] >= 0; }
  size_t size() const { return count_; }
  int32_t max_id() const { return int32_t(by_id_.size()) - 1; }
  size_t max_token_bytes() const { return max_token_bytes_; }

 private:
  struct Entry {
    uint32_t offset, length;
    int32_t id;
  };
  std::string_view View(const Entry& e) const { return {pool_.data() + e.offset, e.length}; }

  std::string pool_;
  std::vector<Entry> entries_;
  std::vector<int32_t> by_id_;    // index into entries_, -1 where an id is missing
  std::vector<uint32_t> slots_;   // index into entries_ plus 1; 0 = free
  std::vector<uint32_t> hashes_;  // of the slot's key, to skip most comparisons
  uint32_t mask_ = 0;
  uint64_t seed_ = HashSeed();
  size_t count_ = 0;
  size_t max_token_bytes_ = 0;
};

// A trie over bytes, for the longest or all keys that start a text.
//
// Nodes lie in breadth-first order, so the children of a node are neighbours and their labels
// form one short sorted byte string that memchr searches. The root has a table of its own.
class ByteTrie {
 public:
  static constexpr uint32_t kNone = 0xFFFFFFFF;

  // Keys need not be sorted. The last of equal keys wins.
  void Build(std::vector<std::pair<std::string_view, int32_t>> keys);
  bool empty() const { return nodes_.size() <= 1; }

  static constexpr uint32_t kRoot = 0;
  // Nodes are numbered breadth-first; the children of one are neighbours.
  uint32_t size() const { return uint32_t(nodes_.size()); }
  uint32_t FirstChild(uint32_t node) const { return nodes_[node].first_child; }
  uint32_t Children(uint32_t node) const { return nodes_[node].children; }
  unsigned char Label(uint32_t node) const { return labels_[node]; }
  uint32_t Child(uint32_t node, unsigned char label) const;
  int32_t Value(uint32_t node) const { return nodes_[node].value; }  // -1: no key ends here
  // Node of exactly `path` below `node`, or kNone.
  uint32_t Walk(uint32_t node, std::string_view path) const;
  // The longest key below `node` that starts `text`; its value, or -1. Never the empty key.
  int32_t Longest(uint32_t node, std::string_view text, size_t* length) const;

 private:
  struct Node {
    uint32_t first_child = 0;
    int32_t value = -1;
    uint16_t children = 0;
  };
  std::vector<Node> nodes_;
  std::vector<unsigned char> labels_;  // of the edge into each node
  uint32_t root_child_[256];
};

}  // namespace penstock::text
