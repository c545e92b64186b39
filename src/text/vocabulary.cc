#include "text/vocabulary.h"

#include <algorithm>

namespace penstock::text {

void Vocabulary::Add(std::string_view token, int32_t id) {
  entries_.push_back({uint32_t(pool_.size()), uint32_t(token.size()), id});
  pool_.append(token);
  max_token_bytes_ = std::max(max_token_bytes_, token.size());
}

void Vocabulary::Build() {
  uint32_t capacity = 16;
  while (capacity < entries_.size() * 2) capacity *= 2;
  mask_ = capacity - 1;
  slots_.assign(capacity, 0);
  hashes_.assign(capacity, 0);
  by_id_.clear();
  count_ = 0;
  for (uint32_t i = 0; i < entries_.size(); ++i) {
    const uint64_t hash = HashBytes(View(entries_[i]), seed_);
    uint32_t slot = uint32_t(hash) & mask_;
    while (slots_[slot] != 0 && (hashes_[slot] != uint32_t(hash >> 32) ||
                                 View(entries_[slots_[slot] - 1]) != View(entries_[i]))) {
      slot = (slot + 1) & mask_;
    }
    count_ += slots_[slot] == 0;
    slots_[slot] = i + 1;
    hashes_[slot] = uint32_t(hash >> 32);
    if (entries_[i].id >= 0) {
      if (size_t(entries_[i].id) >= by_id_.size()) by_id_.resize(size_t(entries_[i].id) + 1, -1);
      by_id_[entries_[i].id] = int32_t(i);
    }
  }
}

int32_t Vocabulary::Find(std::string_view token) const {
  if (slots_.empty()) return -1;
  const uint64_t hash = HashBytes(token, seed_);
  for (uint32_t slot = uint32_t(hash) & mask_; slots_[slot] != 0; slot = (slot + 1) & mask_) {
    if (hashes_[slot] != uint32_t(hash >> 32)) continue;
    const Entry& entry = entries_[slots_[slot] - 1];
    if (View(entry) == token) return entry.id;
  }
  return -1;
}

std::string_view Vocabulary::TokenOf(int32_t id) const {
  return HasId(id) ? View(entries_[by_id_[id]]) : std::string_view();
}

void ByteTrie::Build(std::vector<std::pair<std::string_view, int32_t>> keys) {
  std::stable_sort(keys.begin(), keys.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  // Breadth-first: each queued range of keys shares a prefix of `depth` bytes, its node's path.
  struct Range {
    uint32_t begin, end, depth, node;
  };
  nodes_.assign(1, Node());
  labels_.assign(1, 0);
  std::vector<Range> queue;
  queue.push_back({0, uint32_t(keys.size()), 0, 0});
  for (size_t q = 0; q < queue.size(); ++q) {
    Range range = queue[q];
    while (range.begin < range.end && keys[range.begin].first.size() == range.depth) {
      nodes_[range.node].value = keys[range.begin].second;
      ++range.begin;
    }
    nodes_[range.node].first_child = uint32_t(nodes_.size());
    for (uint32_t i = range.begin; i < range.end;) {
      const char label = keys[i].first[range.depth];
      uint32_t j = i + 1;
      while (j < range.end && keys[j].first[range.depth] == label) ++j;
      queue.push_back({i, j, range.depth + 1, uint32_t(nodes_.size())});
      nodes_.emplace_back();
      labels_.push_back(static_cast<unsigned char>(label));
      ++nodes_[range.node].children;
      i = j;
    }
    if (q >= (1u << 16) && q * 2 > queue.size()) {  // forget what is done
      queue.erase(queue.begin(), queue.begin() + q + 1);
      q = size_t(-1);
    }
  }
  std::fill(std::begin(root_child_), std::end(root_child_), kNone);
  for (uint32_t i = 0; i < nodes_[0].children; ++i) {
    root_child_[labels_[nodes_[0].first_child + i]] = nodes_[0].first_child + i;
  }
}

uint32_t ByteTrie::Child(uint32_t node, unsigned char label) const {
  if (node == kRoot) return root_child_[label];
  const Node& n = nodes_[node];
  const unsigned char* labels = labels_.data() + n.first_child;
  if (n.children <= 4) {
    for (uint32_t i = 0; i < n.children; ++i) {
      if (labels[i] == label) return n.first_child + i;
    }
    return kNone;
  }
  const void* hit = std::memchr(labels, label, n.children);
  if (hit == nullptr) return kNone;
  return n.first_child + uint32_t(static_cast<const unsigned char*>(hit) - labels);
}

uint32_t ByteTrie::Walk(uint32_t node, std::string_view path) const {
  for (char c : path) {
    node = Child(node, static_cast<unsigned char>(c));
    if (node == kNone) return kNone;
  }
  return node;
}

int32_t ByteTrie::Longest(uint32_t node, std::string_view text, size_t* length) const {
  int32_t best = -1;
  for (size_t i = 0; i < text.size(); ++i) {
    node = Child(node, static_cast<unsigned char>(text[i]));
    if (node == kNone) break;
    if (nodes_[node].value >= 0) {
      best = nodes_[node].value;
      *length = i + 1;
    }
  }
  return best;
}

}  // namespace penstock::text
