#include "sample/token_counts.h"

#include <algorithm>
#include <bit>

namespace penstock::sample {
namespace {

constexpr size_t kSlotsMin = 64;

}  // namespace

size_t TokenCounts::SlotOf(int32_t id) const {
  // Fibonacci hashing (Knuth, volume 3, section 6.4), then linear probing.
  const size_t mask = slots_.size() - 1;
  const uint64_t hash = static_cast<uint32_t>(id) * 0x9E3779B97F4A7C15u;
  size_t slot = static_cast<size_t>(hash >> 32) & mask;
  while (slots_[slot] != 0 && entries_[slots_[slot] - 1].id != id) slot = (slot + 1) & mask;
  return slot;
}

void TokenCounts::Grow(size_t slots) {
  slots_.assign(slots, 0);
  for (size_t i = 0; i < entries_.size(); ++i) {
    slots_[SlotOf(entries_[i].id)] = static_cast<uint32_t>(i + 1);
  }
}

void TokenCounts::Reset(int32_t window, size_t tokens_max, size_t distinct_max) {
  const size_t distinct = std::min(tokens_max, distinct_max);
  const size_t slots = std::bit_ceil(std::max(kSlotsMin, 2 * distinct));
  if (slots > slots_.size()) {
    entries_.clear();
    Grow(slots);
  } else {
    // All slots are found before the first is freed: a probe would end at a free one.
    for (Entry& entry : entries_) entry.generated = static_cast<uint32_t>(SlotOf(entry.id));
    for (const Entry& entry : entries_) slots_[entry.generated] = 0;
    entries_.clear();
  }
  entries_.reserve(distinct);
  last_ = window;
  ring_.clear();
  ring_next_ = 0;
  if (window > 0) ring_.reserve(std::min(static_cast<size_t>(window), tokens_max));
}

int64_t TokenCounts::HeapBytes(int32_t window, size_t tokens_max, size_t distinct_max) {
  const size_t distinct = std::min(tokens_max, distinct_max);
  const size_t slots = std::bit_ceil(std::max(kSlotsMin, 2 * distinct));
  const size_t ring = window > 0 ? std::min(static_cast<size_t>(window), tokens_max) : 0;
  return static_cast<int64_t>(distinct * sizeof(Entry) + slots * sizeof(uint32_t) +
                              ring * sizeof(int32_t));
}

TokenCounts::Entry& TokenCounts::At(int32_t id) {
  if (2 * (entries_.size() + 1) > slots_.size()) Grow(2 * slots_.size());
  const size_t slot = SlotOf(id);
  if (slots_[slot] == 0) {
    entries_.push_back({id, 0, 0});
    slots_[slot] = static_cast<uint32_t>(entries_.size());
  }
  return entries_[slots_[slot] - 1];
}

void TokenCounts::AddRecent(Entry& entry) {
  if (last_ == 0) return;
  ++entry.recent;
  if (last_ < 0) return;
  const int32_t id = entry.id;
  if (ring_.size() < static_cast<size_t>(last_)) {
    ring_.push_back(id);
    return;
  }
  --entries_[slots_[SlotOf(ring_[ring_next_])] - 1].recent;
  ring_[ring_next_] = id;
  ring_next_ = ring_next_ + 1 == ring_.size() ? 0 : ring_next_ + 1;
}

void TokenCounts::AddPrompt(std::span<const int32_t> ids) {
  if (last_ == 0) return;
  if (slots_.empty()) Grow(kSlotsMin);
  if (last_ > 0 && ids.size() > static_cast<size_t>(last_)) {
    ids = ids.last(static_cast<size_t>(last_));
  }
  for (const int32_t id : ids) AddRecent(At(id));
}

void TokenCounts::AddGenerated(int32_t id) {
  if (slots_.empty()) Grow(kSlotsMin);
  Entry& entry = At(id);
  ++entry.generated;
  AddRecent(entry);
}

const TokenCounts::Entry* TokenCounts::Find(int32_t id) const {
  if (slots_.empty()) return nullptr;
  const size_t slot = SlotOf(id);
  return slots_[slot] == 0 ? nullptr : &entries_[slots_[slot] - 1];
}

}  // namespace penstock::sample
