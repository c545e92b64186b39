#include "chat/jinja_value.h"

#include <algorithm>

#include "base/seeded_hash.h"
#include "chat/jinja_interp.h"
#include "unicode/utf8.h"

namespace penstock::chat::jinja {
namespace {

// Dicts with more entries find theirs by hash.
constexpr size_t kLinearEntriesMax = 8;
// What an entry takes in the table of hashes: its node, and its part of the buckets.
constexpr size_t kPlaceBytes = 48;
// The heap takes the request's memory in pieces of this size.
constexpr size_t kGrantBytes = 64 << 10;

}  // namespace

std::string Shown(std::string_view text) {
  constexpr size_t kBytesMax = 4096;
  if (text.size() <= kBytesMax) return std::string(text);
  size_t end = kBytesMax;
  while (end > 0 && unicode::IsUtf8Continuation(text[end])) --end;
  return std::string(text.substr(0, end)) + "...";
}

void Fail(std::string message) { throw Error{StatusCode::kInvalidArgument, std::move(message)}; }

void FailLimit(std::string message) {
  throw Error{StatusCode::kUnprocessable, std::move(message), false, true};
}

void FailRequest(Status why) {
  std::string message = why.message();
  throw Error{why.code(), std::move(message), false, true, std::move(why)};
}

Heap::~Heap() {
  // Only cycles are left, and what they keep: hold all, open them, delete all.
  for (Object* object = first_; object != nullptr; object = object->next_) ++object->refs_;
  for (Object* object = first_; object != nullptr; object = object->next_) object->Clear();
  while (first_ != nullptr) {
    Object* object = first_;
    first_ = object->next_;
    delete object;
  }
  if (memory_ != nullptr) memory_->Give(static_cast<int64_t>(granted_));
}

void Heap::Grow(size_t bytes) {
  if (bytes > limits_.memory_bytes || live_ > limits_.memory_bytes - bytes) FailMemory();
  if (memory_ == nullptr) return;
  const size_t pieces = (live_ + bytes + kGrantBytes - 1) / kGrantBytes * kGrantBytes;
  const size_t wanted = std::min(pieces, limits_.memory_bytes);
  Status taken = memory_->Take(static_cast<int64_t>(wanted - granted_));
  if (!taken.ok()) FailRequest(std::move(taken));
  granted_ = wanted;
}

void Heap::Adopt(Object* object, size_t bytes) {
  object->heap_ = this;
  object->charged_ = bytes;
  live_ += bytes;
  object->next_ = first_;
  if (first_ != nullptr) first_->previous_ = object;
  first_ = object;
}

void Heap::Free(Object* object) {
  live_ -= object->charged_;
  if (object->previous_ != nullptr) {
    object->previous_->next_ = object->next_;
  } else {
    first_ = object->next_;
  }
  if (object->next_ != nullptr) object->next_->previous_ = object->previous_;
  object->next_ = dead_;
  dead_ = object;
  if (freeing_) return;
  freeing_ = true;
  while (dead_ != nullptr) {
    Object* next = dead_;
    dead_ = next->next_;
    delete next;
  }
  freeing_ = false;
}

void Heap::FailMemory() const {
  FailLimit("the values take more than " + std::to_string(limits_.memory_bytes) + " bytes");
}

void Heap::FailSteps() const { FailLimit("more than " + std::to_string(limits_.steps) + " steps"); }

Value Heap::Text(std::string text) {
  StepBytes(text.size());
  const size_t bytes = HeapTextBytes(text.capacity());
  CheckMemory(bytes);
  TextObject* object = New<TextObject>(std::move(text));
  const Value owner(Kind::kString, object);
  Charge(object, bytes);
  return owner.Part(object->text);
}

Value Heap::List(std::vector<Value> items, Kind kind) {
  Step(items.size() / 4);
  const size_t bytes = HeapBytes(items.capacity() * sizeof(Value));
  CheckMemory(bytes);
  ListObject* object = New<ListObject>(std::move(items));
  Value list(kind, object);
  Charge(object, bytes);
  return list;
}

void GrowingText::Grow(size_t bytes) {
  heap_.CheckMemory(bytes);  // so that the sums do not overflow
  const size_t capacity = text_.capacity();
  const size_t grown = std::max(text_.size() + bytes, 2 * capacity);
  const size_t before = held_;
  heap_.Hold(HeapTextBytes(grown));
  held_ += HeapTextBytes(grown);
  text_.reserve(grown);
  heap_.Drop(before);
  held_ -= before;
}

void ListBuilder::Reserve(size_t size) {
  if (size <= items_.capacity()) return;
  heap_.CheckMemory(size);
  const size_t before = held_;
  heap_.Hold(HeapBytes(size * sizeof(Value)));
  held_ += HeapBytes(size * sizeof(Value));
  items_.reserve(size);
  heap_.Drop(before);
  held_ -= before;
}

const Value* DictObject::Find(std::string_view key) const {
  if (places.empty()) {
    for (const auto& entry : entries) {
      if (entry.first.is_string() && entry.first.text() == key) return &entry.second;
    }
    return nullptr;
  }
  const auto [begin, end] = places.equal_range(SeededHash()(key));
  for (auto it = begin; it != end; ++it) {
    const auto& entry = entries[it->second];
    if (entry.first.is_string() && entry.first.text() == key) return &entry.second;
  }
  return nullptr;
}

size_t DictObject::Place(Interp& interp, const Value& key, size_t hash) const {
  if (places.empty()) {
    for (size_t i = 0; i < entries.size(); ++i) {
      if (interp.Equal(entries[i].first, key)) return i;
    }
    return entries.size();
  }
  // The whole bucket, so that each node that is walked over is a step.
  const size_t bucket = places.bucket(hash);
  for (auto it = places.begin(bucket); it != places.end(bucket); ++it) {
    interp.Step();
    if (it->first == hash && interp.Equal(entries[it->second].first, key)) return it->second;
  }
  return entries.size();
}

const Value* DictObject::Find(Interp& interp, const Value& key) const {
  if (key.is_string() && places.empty()) return Find(key.text());
  const size_t place = Place(interp, key, interp.Hash(key));
  return place < entries.size() ? &entries[place].second : nullptr;
}

void DictObject::Reserve(Heap& heap, size_t size) {
  if (size <= entries.capacity()) return;
  const size_t now = HeapBytes(entries.capacity() * sizeof(entries[0]));
  const size_t then = HeapBytes(size * sizeof(entries[0]));
  heap.CheckMemory(then);  // beside the old ones
  entries.reserve(size);
  heap.Charge(this, then - now);
}

void DictObject::Set(Interp& interp, const Value& key, Value value) {
  const size_t hash = interp.Hash(key);
  const size_t place = Place(interp, key, hash);
  if (place < entries.size()) {
    entries[place].second = std::move(value);
    return;
  }
  if (entries.size() == entries.capacity()) {
    Reserve(interp.heap(), std::max<size_t>(2 * entries.size(), 1));
  }
  if (!places.empty()) interp.heap().Charge(this, kPlaceBytes);
  entries.emplace_back(key, std::move(value));
  if (!places.empty()) {
    places.emplace(hash, place);
  } else if (entries.size() > kLinearEntriesMax) {
    interp.heap().Charge(this, entries.size() * kPlaceBytes);
    for (size_t i = 0; i < entries.size(); ++i) places.emplace(interp.Hash(entries[i].first), i);
  }
}

}  // namespace penstock::chat::jinja
