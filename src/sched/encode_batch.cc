#include "sched/encode_batch.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace penstock::sched {
namespace {

constexpr size_t kReservedTokenStep = 128;

}  // namespace

void EncodeBatch::Reserve(size_t tokens_max, size_t rows_max) {
  // Arrays are exchanged once all are allocated: an exception leaves the batch as it was.
  if (tokens_max > tokens_max_) {
    tokens_max = (tokens_max + kReservedTokenStep - 1) / kReservedTokenStep * kReservedTokenStep;
    // Left uninitialised: untouched pages take no memory.
    auto ids = std::make_unique_for_overwrite<int32_t[]>(tokens_max);
    type_ids_ = std::make_unique_for_overwrite<int32_t[]>(tokens_max);
    ids_ = std::move(ids);
    tokens_max_ = tokens_max;
  }
  if (rows_max > rows_max_) {
    auto offsets = std::make_unique_for_overwrite<int32_t[]>(rows_max + 1);
    auto pool_skip = std::make_unique_for_overwrite<int32_t[]>(rows_max);
    auto sinks = std::make_unique_for_overwrite<float*[]>(rows_max);
    owners_ = std::make_unique_for_overwrite<EncodeJob*[]>(rows_max);
    sinks_ = std::move(sinks);
    pool_skip_ = std::move(pool_skip);
    offsets_ = std::move(offsets);
    rows_max_ = rows_max;
  }
  Clear();
}

void EncodeBatch::Put(size_t row, size_t token, EncodeJob* job, size_t job_row, size_t job_token,
                      size_t rows) {
  const size_t first_token = token;
  const size_t first_job_token = job_token;
  for (size_t i = 0; i < rows; ++i) {
    offsets_[row + i] = static_cast<int32_t>(token);
    owners_[row + i] = job;
    sinks_[row + i] = job->values.data() + job->ValueOffset(job_row + i, job_token);
    const auto length = static_cast<size_t>(job->lengths[job_row + i]);
    token += length;
    job_token += length;
  }
  const size_t bytes = (token - first_token) * sizeof(int32_t);
  std::memcpy(&ids_[first_token], &job->ids[first_job_token], bytes);
  if (!job->type_ids.empty()) {
    std::memcpy(&type_ids_[first_token], &job->type_ids[first_job_token], bytes);
  }
  if (!job->pool_skip.empty()) {
    std::memcpy(&pool_skip_[row], &job->pool_skip[job_row], rows * sizeof(int32_t));
  }
}

void EncodeBatch::Seal(size_t rows, size_t tokens) {
  rows_ = rows;
  tokens_ = tokens;
  offsets_[rows] = static_cast<int32_t>(tokens);
  work_ = 0;
  for (size_t row = 0; row < rows; ++row) work_ += AttentionWork(offsets_[row + 1] - offsets_[row]);
}

void EncodeBatch::Append(EncodeJob* job, size_t job_row, size_t job_token, size_t rows,
                         size_t tokens) {
  Put(rows_, tokens_, job, job_row, job_token, rows);
  for (size_t i = 0; i < rows; ++i) work_ += AttentionWork(job->lengths[job_row + i]);
  rows_ += rows;
  tokens_ += tokens;
  offsets_[rows_] = static_cast<int32_t>(tokens_);
}

void EncodeBatch::Move(size_t begin, size_t end, size_t* row, size_t* token) {
  const auto from = static_cast<size_t>(offsets_[begin]);
  const size_t tokens = static_cast<size_t>(offsets_[end]) - from;
  if (begin != *row) {
    std::memmove(&ids_[*token], &ids_[from], tokens * sizeof(int32_t));
    std::memmove(&type_ids_[*token], &type_ids_[from], tokens * sizeof(int32_t));
    std::memmove(&pool_skip_[*row], &pool_skip_[begin], (end - begin) * sizeof(int32_t));
    // Forwards, so nothing is written before it was read: rows only move down.
    for (size_t i = begin; i < end; ++i, ++*row) {
      offsets_[*row] = static_cast<int32_t>(*token + static_cast<size_t>(offsets_[i]) - from);
      sinks_[*row] = sinks_[i];
      owners_[*row] = owners_[i];
    }
  } else {
    *row = end;
  }
  *token += tokens;
}

program::PackedBatch EncodeBatch::View(size_t begin, size_t end) {
  bool typed = false;
  bool skipping = false;
  bool salted = false;
  for (size_t row = begin; row < end; ++row) {
    typed |= !owners_[row]->type_ids.empty();
    skipping |= !owners_[row]->pool_skip.empty();
    salted |= owners_[row]->context.cache_salt != 0;
  }
  for (size_t row = begin; row < end; ++row) {
    if (typed && owners_[row]->type_ids.empty()) {
      std::fill(&type_ids_[static_cast<size_t>(offsets_[row])], type_ids_.get() + offsets_[row + 1],
                0);
    }
    if (skipping && owners_[row]->pool_skip.empty()) pool_skip_[row] = 0;
  }
  const auto first = static_cast<size_t>(offsets_[begin]);
  const size_t tokens = static_cast<size_t>(offsets_[end]) - first;
  program::PackedBatch view;
  view.ids = {ids_.get() + first, tokens};
  if (typed) view.type_ids = {type_ids_.get() + first, tokens};
  if (skipping) view.pool_skip = {pool_skip_.get() + begin, end - begin};
  if (salted) {
    cache_salts_.clear();
    for (size_t row = begin; row < end; ++row) {
      cache_salts_.push_back(owners_[row]->context.cache_salt);
    }
    view.cache_salts = cache_salts_;
  }
  view.offsets = {offsets_.get(), end + 1};
  if (begin > 0) {
    part_offsets_.clear();
    for (size_t row = begin; row <= end; ++row) {
      part_offsets_.push_back(offsets_[row] - offsets_[begin]);
    }
    view.offsets = part_offsets_;
  }
  return view;
}

}  // namespace penstock::sched
