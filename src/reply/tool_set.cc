#include "reply/tool_set.h"

#include <algorithm>

namespace penstock::reply {
namespace {

enum Type : unsigned {
  kNull = 1,
  kInteger = 2,
  kNumber = 4,
  kBoolean = 8,
  kObject = 16,
  kArray = 32,
  kString = 64,
};

constexpr int kSchemasMax =
    256;  // that are looked at for one parameter: references may go in rounds

unsigned NamedType(std::string_view name) {
  if (name == "null") return kNull;
  if (name == "integer") return kInteger;
  if (name == "number") return kNumber;
  if (name == "boolean") return kBoolean;
  if (name == "object") return kObject;
  if (name == "array") return kArray;
  return name == "string" ? unsigned{kString} : 0;
}

unsigned TypeOf(JsonElement value) {
  switch (value.type()) {
    case JsonType::kArray:
      return kArray;
    case JsonType::kObject:
      return kObject;
    case JsonType::kInt64:
    case JsonType::kUint64:
      return kInteger;
    case JsonType::kDouble:
      return kNumber;
    case JsonType::kString:
      return kString;
    case JsonType::kBool:
      return kBoolean;
    case JsonType::kNull:
      return kNull;
    case JsonType::kMissing:
      break;
  }
  return 0;
}

// What "#/$defs/name" in `root` is; missing: nothing.
JsonElement Definition(const JsonObject& root, std::string_view pointer) {
  JsonElement at;
  if (!pointer.starts_with("#/")) return at;
  pointer.remove_prefix(2);
  const size_t slash = std::min(pointer.find('/'), pointer.size());
  JsonObject definitions;
  if (slash == pointer.size() || !root[pointer.substr(0, slash)].Get(&definitions)) return at;
  return definitions[pointer.substr(slash + 1)];
}

// The types that `value`, a schema inside of `root`, admits; 0: it does not say. *left: schemas that
// may be looked at.
unsigned AdmittedTypes(const JsonObject& root, JsonElement value, int* left) {
  JsonObject schema;
  if (--*left < 0 || !value.Get(&schema)) return 0;
  unsigned types = 0;
  std::string_view name;
  JsonArray list;
  if (schema["$ref"].Get(&name)) return AdmittedTypes(root, Definition(root, name), left);
  if (schema["allOf"].Get(&list) && list.size() == 1) {
    return AdmittedTypes(root, *list.begin(), left);
  }
  if (schema["type"].Get(&name)) types |= NamedType(name);
  if (schema["type"].Get(&list)) {
    for (const JsonElement item : list) {
      if (item.Get(&name)) types |= NamedType(name);
    }
  }
  for (const char* const key : {"anyOf", "oneOf"}) {
    if (!schema[key].Get(&list)) continue;
    for (const JsonElement item : list) types |= AdmittedTypes(root, item, left);
  }
  if (types == 0 && schema["enum"].Get(&list)) {
    for (const JsonElement item : list) types |= TypeOf(item);
  }
  if (types == 0) types = TypeOf(schema["const"]);
  bool nullable = false;
  if (schema["nullable"].Get(&nullable) && nullable) types |= kNull;
  return types;
}

bool EqualsWord(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(), [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a | 0x20) : a) == b;
  });
}

// `text`, trimmed, if it is JSON of one of `types`.
bool IsJsonOf(std::string_view text, unsigned types) {
  const auto document = JsonDocument::Parse(text);
  if (!document.ok()) return false;
  const unsigned type = TypeOf(document->root());
  if (type == kInteger || type == kNumber) {
    const bool integral = text.find_first_of(".eE") == std::string_view::npos;
    return (types & kNumber) != 0 || ((types & kInteger) != 0 && integral);
  }
  return (types & type) != 0;
}

}  // namespace

const ReplyTool* ToolSet::Find(std::string_view name) const {
  for (const ReplyTool& tool : tools_) {
    if (tool.name == name) return &tool;
  }
  return nullptr;
}

TypedParameters::TypedParameters(const ReplyTool& tool) {
  if (tool.parameters.empty()) return;
  auto schema = JsonDocument::Parse(tool.parameters);
  if (schema.ok()) schema_ = *std::move(schema);
}

unsigned TypedParameters::TypesOf(std::string_view key) const {
  JsonObject root, properties;
  if (!schema_ || !schema_->root().Get(&root) || !root["properties"].Get(&properties)) return 0;
  int left = kSchemasMax;
  return AdmittedTypes(root, properties[key], &left);
}

bool TypedParameters::IsText(std::string_view key) const { return TypesOf(key) == kString; }

std::string TypedParameters::Json(std::string_view key, std::string_view text) const {
  const unsigned told = TypesOf(key);
  const unsigned types = told != 0 ? told : kObject | kArray | kString;
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos) {
    const std::string_view bare = text.substr(first, text.find_last_not_of(" \t\r\n") + 1 - first);
    if ((types & kNull) != 0 && (bare == "null" || bare == "None")) return "null";
    if ((types & kBoolean) != 0 && EqualsWord(bare, "true")) return "true";
    if ((types & kBoolean) != 0 && EqualsWord(bare, "false")) return "false";
    constexpr unsigned kParsed = kInteger | kNumber | kObject | kArray;
    if ((types & kParsed) != 0 && IsJsonOf(bare, types & kParsed)) return std::string(bare);
  }
  std::string json;
  AppendJsonString(text, &json);
  return json;
}

}  // namespace penstock::reply
