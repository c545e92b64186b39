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

Sequence::Sequence(BlockPool* pool, PrefixCache* cache, int32_t context, uint64_t salt,
                   WindowPool windowed)
    : pool_(pool), windowed_(windowed), cache_(cache), context_(context), salt_(salt) {
  blocks_.reserve(BlocksOf(context));
  if (has_window()) window_blocks_.reserve(BlocksOf(context));
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
                                      std::span(blocks_).subspan(whole), whole);
  blocks_.resize(whole + found);
  for (size_t i = whole; i < blocks_.size(); ++i) pool_->AddReference(blocks_[i]);
  length_ += static_cast<int32_t>(found) * kKvBlockTokens;
  if (has_window() && found > 0) TakeAttached();
  if (length_ > 0) TakeTail(ids.subspan(static_cast<size_t>(length_)));
  return length_ - static_cast<int32_t>(from);
}

// What is attached to the blocks that were found, as far as the text sees it.
void Sequence::TakeAttached() {
  const size_t first = FirstSeenAfter(blocks_.size());
  for (size_t i = window_blocks_.size(); i < blocks_.size(); ++i) {
    window_blocks_.push_back(i < first ? -1 : cache_->Attached(blocks_[i]));
    if (i >= first) windowed_.pool->AddReference(window_blocks_.back());
  }
  ReleasePassed();
}

void Sequence::TakeTail(std::span<const int32_t> ids) {
  size_t tokens = 0;
  const BlockPair tail = cache_->TakeTail(blocks_.back(), ids, &tokens);
  if (tail.full < 0) return;
  Push(tail);
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
  const BlockPool* const pools[] = {pool_, windowed_.pool};
  for (const BlockPool* const pool : pools) {
    if (pool == nullptr || missing <= pool->available()) continue;
    return Status(StatusCode::kResourceExhausted,
                  fmt::format("{} blocks of the cache are needed, {} of {} are available", missing,
                              pool->available(), pool->blocks()));
  }
  for (int32_t i = 0; i < missing; ++i) {
    const BlockPair last = blocks_.empty() ? BlockPair() : PairAt(blocks_.size() - 1);
    Push({pool_->Take(last.full), has_window() ? windowed_.pool->Take(last.window) : -1});
  }
  return Status::Ok();
}

bool Sequence::Fits(int32_t tokens, int32_t step_tokens,
                    const std::array<int32_t, kKvAreas>& spare) const {
  const int32_t missing = MissingBlocks(tokens);
  if (missing + spare[0] > pool_->available()) return false;
  if (!has_window()) return true;
  const int64_t at_once = std::min<int64_t>(missing, WindowBlocksOf(windowed_.window, step_tokens));
  return at_once + spare[1] <= windowed_.pool->available();
}

void Sequence::Push(BlockPair pair) {
  blocks_.push_back(pair.full);
  if (has_window()) window_blocks_.push_back(pair.window);
}

void Sequence::Append(std::span<const int32_t> ids) {
  PENSTOCK_CHECK(BlocksOf(length_ + static_cast<int64_t>(ids.size())) <= blocks_.size());
  for (const int32_t id : ids) {
    last_ids_[static_cast<size_t>(length_ % kKvBlockTokens)] = id;
    if (++length_ % kKvBlockTokens != 0 || cache_ == nullptr) continue;
    const auto last = static_cast<size_t>(Whole()) - 1;
    const BlockPair used = cache_->Insert(BlockBefore(Whole() - 1), salt_, last_ids_, PairAt(last));
    blocks_[last] = used.full;
    if (has_window()) window_blocks_[last] = used.window;
  }
  ReleasePassed();
}

// Gives back what no text sees that goes on after the last whole block.
void Sequence::ReleasePassed() {
  if (!has_window()) return;
  const size_t first = FirstSeenAfter(static_cast<size_t>(Whole()));
  for (; window_first_ < first; ++window_first_) {
    int32_t& block = window_blocks_[window_first_];
    if (block >= 0) windowed_.pool->Release(block);
    block = -1;
  }
}

void Sequence::Fork(const Sequence& other, int32_t tokens) {
  PENSTOCK_CHECK(blocks_.empty() && pool_ == other.pool_ && cache_ == other.cache_ &&
                 other.length_ <= context_);
  salt_ = other.salt_;
  const auto whole =
      static_cast<size_t>(std::min(other.Whole(), std::max(tokens, 0) / kKvBlockTokens));
  blocks_.assign(other.blocks_.begin(), other.blocks_.begin() + static_cast<ptrdiff_t>(whole));
  for (const int32_t block : blocks_) pool_->AddReference(block);
  length_ = static_cast<int32_t>(whole) * kKvBlockTokens;
  if (!has_window()) return;
  window_first_ = std::min(other.window_first_, whole);
  window_blocks_.assign(window_first_, -1);
  for (size_t i = window_first_; i < whole; ++i) {
    window_blocks_.push_back(other.window_blocks_[i]);
    windowed_.pool->AddReference(window_blocks_.back());
  }
  ReleasePassed();
  if (HoldWindow()) return;
  length_ = 0;
  DropBlocks(0);
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
  if (has_window() && !HoldWindow()) {
    length_ = 0;
    DropBlocks(0);
  }
  return length_;
}

// Holds again what a text sees that goes on after the last whole block. False: some of it is gone.
bool Sequence::HoldWindow() {
  const size_t first = FirstSeenAfter(static_cast<size_t>(Whole()));
  for (size_t i = first; i < window_first_; ++i) {
    if (cache_ == nullptr || cache_->Attached(blocks_[i]) < 0) return false;
  }
  while (window_first_ > first) {
    const int32_t block = cache_->Attached(blocks_[--window_first_]);
    windowed_.pool->AddReference(block);
    window_blocks_[window_first_] = block;
  }
  return true;
}

void Sequence::Release() {
  DropBlocks(BlocksOf(length_));
  const auto rest = static_cast<size_t>(length_ % kKvBlockTokens);
  if (cache_ != nullptr && rest > 0 && Whole() > 0) {
    cache_->InsertTail(BlockBefore(Whole()), std::span(last_ids_).first(rest),
                       PairAt(blocks_.size() - 1));
  }
  DropBlocks(0);
  length_ = 0;
}

void Sequence::DropBlocks(size_t keep) {
  for (; blocks_.size() > keep; blocks_.pop_back()) {
    pool_->Release(blocks_.back());
    if (!has_window()) continue;
    if (window_blocks_.back() >= 0) windowed_.pool->Release(window_blocks_.back());
    window_blocks_.pop_back();
  }
  window_first_ = std::min(window_first_, keep);
}

}  // namespace penstock
