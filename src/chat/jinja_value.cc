#include "chat/jinja_value.h"

#include <functional>

#include "chat/jinja_interp.h"

namespace penstock::jinja {
namespace {

// Dicts with more entries find theirs by hash.
constexpr size_t kLinearEntriesMax = 8;

}  // namespace

void Fail(std::string message) { throw Error{StatusCode::kInvalidArgument, std::move(message)}; }

void FailLimit(std::string message) {
  throw Error{StatusCode::kUnprocessable, std::move(message), false, true};
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
  const size_t bytes = text.capacity();
  CheckMemory(bytes);
  TextObject* object = New<TextObject>(std::move(text));
  const Value owner(Kind::kString, object);
  Charge(object, bytes);
  return owner.Part(object->text);
}

Value Heap::List(std::vector<Value> items, Kind kind) {
  Step(items.size() / 4);
  const size_t bytes = items.capacity() * sizeof(Value);
  CheckMemory(bytes);
  ListObject* object = New<ListObject>(std::move(items));
  Value list(kind, object);
  Charge(object, bytes);
  return list;
}

const Value* DictObject::Find(std::string_view key) const {
  if (places.empty()) {
    for (const auto& entry : entries) {
      if (entry.first.is_string() && entry.first.text() == key) return &entry.second;
    }
    return nullptr;
  }
  const auto [begin, end] = places.equal_range(std::hash<std::string_view>()(key));
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
  const auto [begin, end] = places.equal_range(hash);
  for (auto it = begin; it != end; ++it) {
    interp.Step();
    if (interp.Equal(entries[it->second].first, key)) return it->second;
  }
  return entries.size();
}

const Value* DictObject::Find(Interp& interp, const Value& key) const {
  if (key.is_string()) return Find(key.text());
  const size_t place = Place(interp, key, interp.Hash(key));
  return place < entries.size() ? &entries[place].second : nullptr;
}

void DictObject::Set(Interp& interp, const Value& key, Value value) {
  const size_t hash = interp.Hash(key);
  const size_t place = Place(interp, key, hash);
  if (place < entries.size()) {
    entries[place].second = std::move(value);
    return;
  }
  interp.heap().Charge(this, sizeof(entries[0]) + (places.empty() ? 0 : 48));
  entries.emplace_back(key, std::move(value));
  if (!places.empty()) {
    places.emplace(hash, place);
  } else if (entries.size() > kLinearEntriesMax) {
    for (size_t i = 0; i < entries.size(); ++i) places.emplace(interp.Hash(entries[i].first), i);
  }
}

}  // namespace penstock::jinja
