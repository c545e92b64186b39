// Where a batch is put together: sequences copied end to end into buffers that keep their
// capacity. Owned by the executor thread of one model; not shared.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/packed_batch.h"

namespace penstock {

class BatchBuffer {
 public:
  BatchBuffer() { Clear(); }
  void Reserve(size_t tokens, size_t sequences);
  void Clear();
  // `type_ids` is empty (all 0) or as long as `ids`. Pooling leaves out the first `pool_skip`.
  void Append(std::span<const int32_t> ids, std::span<const int32_t> type_ids,
              int32_t pool_skip = 0);

  size_t tokens() const { return ids_.size(); }
  size_t sequences() const { return offsets_.size() - 1; }
  // Valid until the next change. type_ids and pool_skip are empty when every one is 0.
  PackedBatch View() const;
  // Sequences [begin, end) of it as a batch of their own; its offsets start at 0 again and live
  // in this object until the next call.
  PackedBatch View(size_t begin, size_t end);

 private:
  std::vector<int32_t> ids_;
  std::vector<int32_t> type_ids_;  // as long as ids_
  std::vector<int32_t> offsets_;
  std::vector<int32_t> part_offsets_;
  std::vector<int32_t> pool_skip_;  // one a sequence
  bool has_types_ = false;
  bool has_skip_ = false;
};

}  // namespace penstock
