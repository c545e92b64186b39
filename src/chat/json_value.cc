#include "chat/json_value.h"

#include <unordered_map>

#include "common/json.h"

namespace penstock {
namespace {

// Objects with more members find theirs by a table while they are built.
constexpr size_t kLinearMembersMax = 16;

JsonValue FromElement(JsonElement value);  // at most JsonDocument::kDepthMax levels

JsonValue FromObject(const JsonObject& object) {
  JsonValue::Object members;
  members.reserve(object.size());
  std::unordered_map<std::string_view, size_t> places;  // views into the document
  for (const auto field : object) {
    JsonValue value = FromElement(field.value);
    JsonValue::Member* known = nullptr;
    if (members.size() < kLinearMembersMax) {
      for (auto& member : members) {
        if (member.first == field.key) known = &member;
      }
    } else {
      if (places.empty()) {
        for (size_t i = 0; i < members.size(); ++i) places.emplace(members[i].first, i);
      }
      const auto [place, added] = places.emplace(field.key, members.size());
      if (!added) known = &members[place->second];
    }
    if (known != nullptr) {
      known->second = std::move(value);
    } else {
      members.emplace_back(std::string(field.key), std::move(value));
    }
  }
  return members;
}

template <typename T>
T Read(JsonElement value) {
  T out{};
  value.Get(&out);
  return out;
}

JsonValue FromElement(JsonElement value) {
  switch (value.type()) {
    case JsonType::kArray: {
      JsonValue::Array items;
      const auto array = Read<JsonArray>(value);
      items.reserve(array.size());
      for (const JsonElement item : array) items.push_back(FromElement(item));
      return items;
    }
    case JsonType::kObject:
      return FromObject(Read<JsonObject>(value));
    case JsonType::kInt64:
      return Read<int64_t>(value);
    case JsonType::kUint64:
    case JsonType::kDouble:
      return Read<double>(value);
    case JsonType::kString:
      return Read<std::string_view>(value);
    case JsonType::kBool:
      return Read<bool>(value);
    case JsonType::kNull:
    case JsonType::kMissing:
      break;
  }
  return JsonValue();
}

}  // namespace

Expected<JsonValue> JsonValue::Parse(std::string_view text) {
  static_assert(kDepthMax == JsonDocument::kDepthMax);
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(text));
  return FromElement(document.root());
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

}  // namespace penstock
