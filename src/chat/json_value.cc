#include "chat/json_value.h"

#include <algorithm>
#include <numeric>

#include "json/json.h"
#include "threads/held_memory.h"
#include "threads/request_context.h"

namespace penstock::chat {
namespace {

// In objects with more members keys that repeat are found by sorting.
constexpr size_t kLinearMembersMax = 16;
// Bytes a member of the index that sorts them.
constexpr size_t kIndexBytes = sizeof(uint32_t);
// Bytes of the parser for each byte of a text, while its document lives.
constexpr size_t kParseBytes = 16;

template <typename T>
T Read(JsonElement value) {
  T out{};
  value.Get(&out);
  return out;
}

// Takes out all members but one of each key: the first, with the value of the last.
void DropRepeated(JsonValue::Object* members) {
  JsonValue::Object& all = *members;
  std::vector<bool> gone;
  const auto repeat = [&](size_t first, size_t later) {
    all[first].second = std::move(all[later].second);
    gone.resize(all.size());
    gone[later] = true;
  };
  if (all.size() <= kLinearMembersMax) {
    for (size_t i = 1; i < all.size(); ++i) {
      for (size_t first = 0; first < i; ++first) {
        if (all[first].first != all[i].first) continue;
        repeat(first, i);
        break;
      }
    }
  } else {
    std::vector<uint32_t> order(all.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      const int order_of_keys = all[a].first.compare(all[b].first);
      return order_of_keys != 0 ? order_of_keys < 0 : a < b;
    });
    for (size_t i = 1, first = 0; i < order.size(); ++i) {
      if (all[order[i]].first == all[order[first]].first) {
        repeat(order[first], order[i]);
      } else {
        first = i;
      }
    }
  }
  if (gone.empty()) return;
  size_t kept = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    if (gone[i]) continue;
    if (kept != i) all[kept] = std::move(all[i]);
    ++kept;
  }
  all.resize(kept);
}

// Makes a tree, at most JsonDocument::kDepthMax levels deep. False: status() says why, and what was
// made is a part.
class TreeMaker {
 public:
  explicit TreeMaker(const JsonValue::Limits& limits) : limits_(limits) {}

  bool Make(JsonElement value, JsonValue* out) {
    if (!Look()) return false;
    switch (value.type()) {
      case JsonType::kArray:
        return MakeArray(Read<JsonArray>(value), out);
      case JsonType::kObject:
        return MakeObject(Read<JsonObject>(value), out);
      case JsonType::kInt64:
        *out = Read<int64_t>(value);
        return true;
      case JsonType::kUint64:
      case JsonType::kDouble:
        *out = Read<double>(value);
        return true;
      case JsonType::kString: {
        const auto text = Read<std::string_view>(value);
        if (!Take(HeapTextBytes(text.size()))) return false;
        *out = text;
        return true;
      }
      case JsonType::kBool:
        *out = Read<bool>(value);
        return true;
      case JsonType::kNull:
      case JsonType::kMissing:
        break;
    }
    *out = JsonValue();
    return true;
  }
  Status& status() { return status_; }

 private:
  // The count that the parser keeps saturates.
  template <typename Container>
  static size_t SizeOf(const Container& container) {
    constexpr size_t kSaturated = (1 << 24) - 1;
    if (container.size() < kSaturated) return container.size();
    size_t count = 0;
    for (auto it = container.begin(); !(it == container.end()); ++it) ++count;
    return count;
  }

  bool MakeArray(const JsonArray& array, JsonValue* out) {
    const size_t count = SizeOf(array);
    if (!Take(HeapBytes(count * sizeof(JsonValue)))) return false;
    JsonValue::Array items;
    items.reserve(count);
    for (const JsonElement item : array) {
      if (!Make(item, &items.emplace_back())) return false;
    }
    *out = std::move(items);
    return true;
  }

  bool MakeObject(const JsonObject& object, JsonValue* out) {
    const size_t count = SizeOf(object);
    if (count > limits_.members_max) {
      status_ =
          Status(StatusCode::kUnprocessable,
                 "'" + std::string(limits_.field) + "' has an object of " + std::to_string(count) +
                     " members; the limit is " + std::to_string(limits_.members_max),
                 limits_.field);
      return false;
    }
    if (!Take(HeapBytes(count * sizeof(JsonValue::Member)) + HeapBytes(count * kIndexBytes))) {
      return false;
    }
    JsonValue::Object members;
    members.reserve(count);
    for (const JsonField field : object) {
      if (!Take(HeapTextBytes(field.key.size()))) return false;
      JsonValue::Member& member = members.emplace_back(field.key, JsonValue());
      if (!Make(field.value, &member.second)) return false;
    }
    DropRepeated(&members);
    *out = std::move(members);
    return true;
  }

  bool Look() {
    if (++values_ % JsonValue::kValuesPerLook != 0 || limits_.context == nullptr) return true;
    status_ =
        limits_.context->CheckWanted(Clock::now(), "the request's time ran out before it was read");
    return status_.ok();
  }
  bool Take(size_t bytes) {
    if (limits_.memory != nullptr) status_ = limits_.memory->Take(bytes);
    return status_.ok();
  }

  const JsonValue::Limits& limits_;
  size_t values_ = 0;
  Status status_;
};

}  // namespace

Expected<JsonValue> JsonValue::Copy(JsonElement value, const Limits& limits) {
  TreeMaker maker(limits);
  JsonValue tree;
  if (!maker.Make(value, &tree)) return std::move(maker.status());
  return tree;
}

Expected<JsonValue> JsonValue::Parse(std::string_view text, const Limits& limits) {
  static_assert(kDepthMax == JsonDocument::kDepthMax);
  ScopedMemory parsing(limits.memory == nullptr ? nullptr : limits.memory->memory());
  PENSTOCK_RETURN_IF_ERROR(parsing.Take(static_cast<int64_t>(text.size() * kParseBytes)));
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(text));
  return Copy(document.root(), limits);
}

const JsonValue* JsonValue::Find(std::string_view key) const {
  const Object* members = object();
  if (members == nullptr) return nullptr;
  for (const Member& member : *members) {
    if (member.first == key) return &member.second;
  }
  return nullptr;
}

JsonValue* JsonValue::Find(std::string_view key) {
  return const_cast<JsonValue*>(std::as_const(*this).Find(key));
}

void JsonValue::Set(std::string_view key, JsonValue value) {
  if (object() == nullptr) value_ = Object();
  if (JsonValue* known = Find(key)) {
    *known = std::move(value);
  } else {
    object()->emplace_back(std::string(key), std::move(value));
  }
}

void JsonValue::Write(JsonWriter* json) const {
  if (const bool* truth = boolean()) {
    json->Bool(*truth);
  } else if (const int64_t* whole = integer()) {
    json->Int(*whole);
  } else if (const double* real = number()) {
    json->Double(*real);
  } else if (const std::string* text = string()) {
    json->String(*text);
  } else if (const Array* items = array()) {
    json->BeginArray();
    for (const JsonValue& item : *items) item.Write(json);
    json->EndArray();
  } else if (const Object* members = object()) {
    json->BeginObject();
    for (const Member& member : *members) {
      json->Key(member.first);
      member.second.Write(json);
    }
    json->EndObject();
  } else {
    json->Null();
  }
}

std::string JsonValue::Print() const {
  std::string out;
  JsonWriter json(&out);
  Write(&json);
  return out;
}

}  // namespace penstock::chat
