#include "kv/sequence.h"

#include <fmt/format.h>

#include <algorithm>

namespace penstock::kv {
namespace {

size_t BlocksOf(int64_t tokens) { return static_cast<size_t>(BlocksOfTokens(tokens)); }

}  // namespace

Sequence::Sequence(CachePools* pools, PrefixCache* cache, int32_t context, uint64_t salt)
    : pools_(pools), cache_(cache), context_(context), salt_(salt), tables_(pools->size()) {
  for (BlockTable& table : tables_) table.reserve(BlocksOf(context));
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
  BlockTable& first = tables_[0];
  first.resize((ids.size() - 1) / kKvBlockTokens);
  const size_t found = cache_->Lookup(BlockBefore(Whole()), salt_, ids.subspan(from),
                                      std::span(first).subspan(whole), whole);
  first.resize(whole + found);
  for (size_t i = whole; i < first.size(); ++i) (*pools_)[0].AddReference(first[i]);
  length_ += static_cast<int32_t>(found) * kKvBlockTokens;
  if (found > 0) TakeAttached();
  if (length_ > 0) TakeTail(ids.subspan(static_cast<size_t>(length_)));
  return length_ - static_cast<int32_t>(from);
}

// What is attached to the blocks that were found, as far as the text reads it.
void Sequence::TakeAttached() {
  const BlockTable& first = tables_[0];
  for (size_t g = 1; g < tables_.size(); ++g) {
    const size_t needed = pools_->policy(g).FirstNeeded(first.size());
    for (size_t i = tables_[g].size(); i < first.size(); ++i) {
      tables_[g].push_back(i < needed ? -1 : cache_->Attached(g, first[i]));
      if (i >= needed) (*pools_)[g].AddReference(tables_[g].back());
    }
  }
  ReleasePassed();
}

void Sequence::TakeTail(std::span<const int32_t> ids) {
  size_t tokens = 0;
  const GroupBlocks tail = cache_->TakeTail(tables_[0].back(), ids, &tokens);
  if (tail[0] < 0) return;
  Push(tail);
  std::ranges::copy(ids.first(tokens), last_ids_.begin());
  length_ += static_cast<int32_t>(tokens);
}

int32_t Sequence::MissingBlocks(int32_t tokens) const {
  const size_t needed = BlocksOf(int64_t{length_} + tokens);
  const size_t held = tables_[0].size();
  return needed > held ? static_cast<int32_t>(needed - held) : 0;
}

Status Sequence::Reserve(int32_t tokens) {
  if (int64_t{length_} + tokens > context_) {
    return Status::InvalidArgument(fmt::format("{} tokens after {} are more than the context of {}",
                                               tokens, length_, context_),
                                   "context");
  }
  const int32_t missing = MissingBlocks(tokens);
  for (size_t g = 0; g < tables_.size(); ++g) {
    const BlockPool& pool = (*pools_)[g];
    if (missing <= pool.available()) continue;
    return Status(StatusCode::kResourceExhausted,
                  fmt::format("{} blocks of the cache are needed, {} of {} are available", missing,
                              pool.available(), pool.blocks()));
  }
  for (int32_t i = 0; i < missing; ++i) {
    for (size_t g = 0; g < tables_.size(); ++g) {
      tables_[g].push_back((*pools_)[g].Take(tables_[g].empty() ? -1 : tables_[g].back()));
    }
  }
  return Status::Ok();
}

bool Sequence::Fits(int32_t tokens, int32_t step_tokens, const GroupCounts& spare) const {
  const GroupCounts at_once = pools_->MostHeld(MissingBlocks(tokens), step_tokens);
  for (size_t g = 0; g < tables_.size(); ++g) {
    if (at_once[g] + spare[g] > (*pools_)[g].available()) return false;
  }
  return true;
}

GroupBlocks Sequence::BlocksAt(size_t index) const {
  GroupBlocks blocks;
  for (size_t g = 0; g < tables_.size(); ++g) blocks[g] = tables_[g][index];
  return blocks;
}

void Sequence::Push(const GroupBlocks& blocks) {
  for (size_t g = 0; g < tables_.size(); ++g) tables_[g].push_back(blocks[g]);
}

void Sequence::Append(std::span<const int32_t> ids) {
  PENSTOCK_CHECK(BlocksOf(length_ + static_cast<int64_t>(ids.size())) <= tables_[0].size());
  const int32_t whole_before = Whole();
  for (const int32_t id : ids) {
    last_ids_[static_cast<size_t>(length_ % kKvBlockTokens)] = id;
    if (++length_ % kKvBlockTokens != 0 || cache_ == nullptr) continue;
    const auto last = static_cast<size_t>(Whole()) - 1;
    const GroupBlocks used =
        cache_->Insert(BlockBefore(Whole() - 1), salt_, last_ids_, BlocksAt(last));
    for (size_t g = 0; g < tables_.size(); ++g) tables_[g][last] = used[g];
  }
  if (Whole() > whole_before) ReleasePassed();
}

// Gives back what no text reads that goes on after the last whole block.
void Sequence::ReleasePassed() {
  for (size_t g = 1; g < tables_.size(); ++g) {
    const size_t needed = pools_->policy(g).FirstNeeded(static_cast<size_t>(Whole()));
    for (size_t& first = held_from_[g]; first < needed; ++first) {
      int32_t& block = tables_[g][first];
      if (block >= 0) (*pools_)[g].Release(block);
      block = -1;
    }
  }
}

void Sequence::Fork(const Sequence& other, int32_t tokens) {
  PENSTOCK_CHECK(tables_[0].empty() && pools_ == other.pools_ && cache_ == other.cache_ &&
                 other.length_ <= context_);
  salt_ = other.salt_;
  const auto whole =
      static_cast<size_t>(std::min(other.Whole(), std::max(tokens, 0) / kKvBlockTokens));
  length_ = static_cast<int32_t>(whole) * kKvBlockTokens;
  for (size_t g = 0; g < tables_.size(); ++g) {
    held_from_[g] = std::min(other.held_from_[g], whole);
    tables_[g].assign(held_from_[g], -1);
    for (size_t i = held_from_[g]; i < whole; ++i) {
      tables_[g].push_back(other.tables_[g][i]);
      (*pools_)[g].AddReference(tables_[g].back());
    }
  }
  ReleasePassed();
  if (HoldNeeded()) return;
  length_ = 0;
  DropBlocks(0);
}

int32_t Sequence::Truncate(int32_t length) {
  PENSTOCK_CHECK(length >= 0 && length <= length_);
  const int32_t index = length / kKvBlockTokens;
  if (length % kKvBlockTokens != 0 && index < Whole()) {
    const BlockPool& pool = (*pools_)[0];
    const int32_t block = tables_[0][static_cast<size_t>(index)];
    if (pool.known(block) || pool.references(block) > 1) length = index * kKvBlockTokens;
  }
  if (length < length_ && !pools_->can_shorten()) length = index * kKvBlockTokens;
  length_ = length;
  DropBlocks(BlocksOf(length));
  if (!HoldNeeded()) {
    length_ = 0;
    DropBlocks(0);
  }
  return length_;
}

// Holds again what a text reads that goes on after the last whole block. False: some of it is gone.
bool Sequence::HoldNeeded() {
  for (size_t g = 1; g < tables_.size(); ++g) {
    const size_t needed = pools_->policy(g).FirstNeeded(static_cast<size_t>(Whole()));
    for (size_t i = needed; i < held_from_[g]; ++i) {
      if (cache_ == nullptr || cache_->Attached(g, tables_[0][i]) < 0) return false;
    }
    while (held_from_[g] > needed) {
      const size_t i = --held_from_[g];
      tables_[g][i] = cache_->Attached(g, tables_[0][i]);
      (*pools_)[g].AddReference(tables_[g][i]);
    }
  }
  return true;
}

void Sequence::Release() {
  DropBlocks(BlocksOf(length_));
  const auto rest = static_cast<size_t>(length_ % kKvBlockTokens);
  if (cache_ != nullptr && rest > 0 && Whole() > 0) {
    cache_->InsertTail(BlockBefore(Whole()), std::span(last_ids_).first(rest),
                       BlocksAt(tables_[0].size() - 1));
  }
  DropBlocks(0);
  length_ = 0;
}

void Sequence::DropBlocks(size_t keep) {
  for (size_t g = 0; g < tables_.size(); ++g) {
    for (; tables_[g].size() > keep; tables_[g].pop_back()) {
      if (tables_[g].back() >= 0) (*pools_)[g].Release(tables_[g].back());
    }
    held_from_[g] = std::min(held_from_[g], keep);
  }
}

}  // namespace penstock::kv
