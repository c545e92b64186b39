// What the kinds of groups of a cache (CacheKind) differ in: which blocks a text needs to go on.
// Each kind is a class in a file of its own; pools, prefix cache, sequences and schedulers ask it.
//
//               full         window               state
//   text of     [0][1][2]    [0][1][2]            [0][1][2]
//   70 tokens    #  #  +         #  +                 #  +        # whole   + being written
//               all          what the next token  the state at the end of
//                            sees                 the last whole block
//
// Texts share whole blocks alone. A block that is whole is never written again, so that a state at
// the end of a block is a snapshot: a text that goes on from it reads it, and writes the next
// block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/kv_block.h"

namespace penstock::kv {

class GroupPolicy {
 public:
  virtual ~GroupPolicy() = default;
  // A text that goes on after `whole` whole blocks reads none before this one; those before are
  // given back. At most `whole`, and it never falls as `whole` grows.
  virtual size_t FirstNeeded(size_t whole) const = 0;
  // The most of its `blocks` blocks that a text holds at once, in steps of up to `rows` tokens.
  virtual int64_t MostHeld(int64_t blocks, int32_t rows) const = 0;
  // Whether a block that is not whole serves fewer tokens than were written to it.
  virtual bool CanShorten() const { return true; }
};

std::unique_ptr<GroupPolicy> NewFullPolicy();
std::unique_ptr<GroupPolicy> NewWindowPolicy(int32_t window);
std::unique_ptr<GroupPolicy> NewStatePolicy();
// Of the group's kind.
std::unique_ptr<GroupPolicy> NewGroupPolicy(const CacheGroup& group);

}  // namespace penstock::kv
