#include "batch/batch_buffer.h"

#include "common/status.h"

namespace penstock {

void BatchBuffer::Reserve(size_t tokens, size_t sequences) {
  ids_.reserve(tokens);
  type_ids_.reserve(tokens);
  offsets_.reserve(sequences + 1);
  pool_skip_.reserve(sequences);
}

void BatchBuffer::Clear() {
  ids_.clear();
  type_ids_.clear();
  offsets_.assign(1, 0);
  pool_skip_.clear();
  has_types_ = false;
  has_skip_ = false;
}

void BatchBuffer::Append(std::span<const int32_t> ids, std::span<const int32_t> type_ids,
                         int32_t pool_skip) {
  PENSTOCK_CHECK(type_ids.empty() || type_ids.size() == ids.size());
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  if (type_ids.empty()) {
    type_ids_.resize(ids_.size(), 0);
  } else {
    type_ids_.insert(type_ids_.end(), type_ids.begin(), type_ids.end());
    has_types_ = true;
  }
  offsets_.push_back(static_cast<int32_t>(ids_.size()));
  pool_skip_.push_back(pool_skip);
  has_skip_ |= pool_skip != 0;
}

PackedBatch BatchBuffer::View() const {
  PackedBatch batch;
  batch.ids = ids_;
  if (has_types_) batch.type_ids = type_ids_;
  batch.offsets = offsets_;
  if (has_skip_) batch.pool_skip = pool_skip_;
  return batch;
}

PackedBatch BatchBuffer::View(size_t begin, size_t end) {
  PENSTOCK_CHECK(begin <= end && end <= sequences());
  const int32_t first = offsets_[begin];
  part_offsets_.clear();
  for (size_t i = begin; i <= end; ++i) part_offsets_.push_back(offsets_[i] - first);
  const size_t tokens = offsets_[end] - first;
  PackedBatch batch;
  batch.ids = std::span(ids_).subspan(first, tokens);
  if (has_types_) batch.type_ids = std::span(type_ids_).subspan(first, tokens);
  batch.offsets = part_offsets_;
  if (has_skip_) batch.pool_skip = std::span(pool_skip_).subspan(begin, end - begin);
  return batch;
}

}  // namespace penstock
