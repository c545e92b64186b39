// The one batch type of the encoder path: sequences laid end to end, no padding.
//
//   ids      | t t t t | t t | t t t t t t |      one entry a token, tokens() in all
//   offsets  0         4     6             12     sequences() + 1 entries
#pragma once

#include <cstdint>
#include <span>

namespace penstock {

struct PackedBatch {
  std::span<const int32_t> ids;       // [tokens]
  std::span<const int32_t> type_ids;  // [tokens], or empty: all 0
  std::span<const int32_t> offsets;   // [sequences + 1], offsets[0] == 0, non-decreasing
  // Leading tokens of each sequence that pooling leaves out (a prompt); or empty: none.
  std::span<const int32_t> pool_skip;  // [sequences], each below the sequence's length
  // Rows that a program with an InputOp begins with, [tokens, width of its y]; else empty.
  std::span<const float> input;
  // Of the sequences' requests (RequestContext::cache_salt); or empty: all 0.
  std::span<const uint64_t> cache_salts;  // [sequences]

  size_t tokens() const { return ids.size(); }
  size_t sequences() const { return offsets.empty() ? 0 : offsets.size() - 1; }
  int32_t length(size_t sequence) const { return offsets[sequence + 1] - offsets[sequence]; }
};

}  // namespace penstock
