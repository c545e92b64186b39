// GroupPlan: cuts a batch into groups of whole neighbouring sequences; a worker takes one group at
// a time through a program's ops over tokens.
//
// A group's activations fit a share of the worker's cache, so they stay there between ops; but a
// group has at least kTokensMin tokens, below which reading the weights again would cost more than
// the cache saves. Groups are begun largest first.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "program/packed_batch.h"

namespace penstock::cpu {

class GroupPlan {
 public:
  static constexpr size_t kTokensMin = 48;
  static constexpr size_t kTokensMax = 256;

  struct Group {
    size_t begin = 0;  // sequences
    size_t end = 0;
    size_t tokens = 0;
  };

  // `token_bytes`: of one token's activations; `cache_bytes`: of a worker's own cache.
  GroupPlan(size_t workers, size_t token_bytes, size_t cache_bytes);

  // Most tokens of a group, unless a single sequence has more.
  size_t group_tokens() const { return group_tokens_; }
  // Make then allocates nothing for up to `sequences`.
  void Reserve(size_t sequences) { groups_.reserve(sequences); }
  void Release() { groups_ = std::vector<Group>(); }

  // Cuts `batch`, which is not empty. True: the workers end at about the same time if each takes
  // the next group in turn. False: it does not cut into even groups (above all a single text), and
  // each op had better be spread over all threads.
  bool Make(const program::PackedBatch& batch);
  std::span<const Group> groups() const { return groups_; }

 private:
  size_t group_tokens_;
  std::vector<Group> groups_;
  std::vector<size_t> loads_;  // of each worker
};

}  // namespace penstock::cpu
