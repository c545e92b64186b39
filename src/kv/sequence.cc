#include "kv/sequence.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/int_math.h"

namespace penstock {
namespace {

size_t BlocksOf(int64_t tokens) {
  return CeilDiv(static_cast<size_t>(tokens), size_t{kKvBlockTokens});
}

}  // namespace

Sequence::Sequence(BlockPool* pool, PrefixCache* cache, int32_t context, uint64_t salt)
    : pool_(pool), cache_(cache), context_(context), salt_(salt) {
  blocks_.reserve(BlocksOf(context));
}

void Sequence::SetSalt(uint64_t salt) {
  PENSTOCK_CHECK(length_ == 0);
  salt_ = salt;
}

int32_t Sequence::TakeCached(std::span<const int32_t> ids) {
  const auto from = static_cast<size_t>(length_);
  if (cache_ == nullptr || from % kKvBlockTokens != 0 || ids.size() <= from) return 0;
  ids = ids.first(std::min(ids.size(), static_cast<size_t>(context_)));
  const auto whole = static_cast<size_t>(Whole());
  DropBlocks(whole);
  blocks_.resize((ids.size() - 1) / kKvBlockTokens);
  const size_t found = cache_->Lookup(BlockBefore(Whole()), salt_, ids.subspan(from),
                                      std::span(blocks_).subspan(whole));
  blocks_.resize(whole + found);
  for (size_t i = whole; i < blocks_.size(); ++i) pool_->AddReference(blocks_[i]);
  length_ += static_cast<int32_t>(found) * kKvBlockTokens;
  if (length_ > 0) TakeTail(ids.subspan(static_cast<size_t>(length_)));
  return length_ - static_cast<int32_t>(from);
}

void Sequence::TakeTail(std::span<const int32_t> ids) {
  size_t tokens = 0;
  const int32_t block = cache_->TakeTail(blocks_.back(), ids, &tokens);
  if (block < 0) return;
  blocks_.push_back(block);
  std::ranges::copy(ids.first(tokens), last_ids_.begin());
  length_ += static_cast<int32_t>(tokens);
}

int32_t Sequence::MissingBlocks(int32_t tokens) const {
  const size_t needed = BlocksOf(int64_t{length_} + tokens);
  return needed > blocks_.size() ? static_cast<int32_t>(needed - blocks_.size()) : 0;
}

Status Sequence::Reserve(int32_t tokens) {
  if (int64_t{length_} + tokens > context_) {
    return Status::InvalidArgument(fmt::format("{} tokens after {} are more than the context of {}",
                                               tokens, length_, context_),
                                   "context");
  }
  const int32_t missing = MissingBlocks(tokens);
  if (missing > pool_->available()) {
    return Status(StatusCode::kResourceExhausted,
                  fmt::format("{} blocks of the cache are needed, {} of {} are available", missing,
                              pool_->available(), pool_->blocks()));
  }
  for (int32_t i = 0; i < missing; ++i) {
    blocks_.push_back(pool_->Take(blocks_.empty() ? -1 : blocks_.back()));
  }
  return Status::Ok();
}

void Sequence::Append(std::span<const int32_t> ids) {
  PENSTOCK_CHECK(BlocksOf(length_ + static_cast<int64_t>(ids.size())) <= blocks_.size());
  for (const int32_t id : ids) {
    last_ids_[static_cast<size_t>(length_ % kKvBlockTokens)] = id;
    if (++length_ % kKvBlockTokens != 0 || cache_ == nullptr) continue;
    int32_t& block = blocks_[static_cast<size_t>(Whole()) - 1];
    block = cache_->Insert(BlockBefore(Whole() - 1), salt_, last_ids_, block);
  }
}

void Sequence::Fork(const Sequence& other) {
  PENSTOCK_CHECK(blocks_.empty() && pool_ == other.pool_ && cache_ == other.cache_ &&
                 other.length_ <= context_);
  salt_ = other.salt_;
  const auto whole = static_cast<size_t>(other.Whole());
  blocks_.assign(other.blocks_.begin(), other.blocks_.begin() + static_cast<ptrdiff_t>(whole));
  for (const int32_t block : blocks_) pool_->AddReference(block);
  length_ = other.Whole() * kKvBlockTokens;
}

int32_t Sequence::Truncate(int32_t length) {
  PENSTOCK_CHECK(length >= 0 && length <= length_);
  const int32_t index = length / kKvBlockTokens;
  if (length % kKvBlockTokens != 0 && index < Whole()) {
    const int32_t block = blocks_[static_cast<size_t>(index)];
    if (pool_->known(block) || pool_->references(block) > 1) length = index * kKvBlockTokens;
  }
  length_ = length;
  DropBlocks(BlocksOf(length));
  return length;
}

void Sequence::Release() {
  DropBlocks(BlocksOf(length_));
  const auto rest = static_cast<size_t>(length_ % kKvBlockTokens);
  if (cache_ != nullptr && rest > 0 && Whole() > 0) {
    cache_->InsertTail(BlockBefore(Whole()), std::span(last_ids_).first(rest), blocks_.back());
  }
  DropBlocks(0);
  length_ = 0;
}

void Sequence::DropBlocks(size_t keep) {
  for (; blocks_.size() > keep; blocks_.pop_back()) pool_->Release(blocks_.back());
}

}  // namespace penstock
