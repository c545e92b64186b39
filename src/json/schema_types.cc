#include "json/schema_types.h"

#include <algorithm>
#include <string_view>

namespace penstock {
namespace {

constexpr int kSchemasMax = 256;

unsigned NamedType(std::string_view name) {
  if (name == "null") return kSchemaNull;
  if (name == "integer") return kSchemaInteger;
  if (name == "number") return kSchemaNumber;
  if (name == "boolean") return kSchemaBoolean;
  if (name == "object") return kSchemaObject;
  if (name == "array") return kSchemaArray;
  return name == "string" ? unsigned{kSchemaString} : 0;
}

// *left: schemas that may be looked at.
unsigned Types(const JsonObject& root, JsonElement value, int* left) {
  JsonObject schema;
  if (--*left < 0 || !value.Get(&schema)) return 0;
  unsigned types = 0;
  std::string_view name;
  JsonArray list;
  if (schema["$ref"].Get(&name)) return Types(root, SchemaDefinition(root, name), left);
  if (schema["allOf"].Get(&list) && list.size() == 1) return Types(root, *list.begin(), left);
  if (schema["type"].Get(&name)) types |= NamedType(name);
  if (schema["type"].Get(&list)) {
    for (const JsonElement item : list) {
      if (item.Get(&name)) types |= NamedType(name);
    }
  }
  for (const char* const key : {"anyOf", "oneOf"}) {
    if (!schema[key].Get(&list)) continue;
    for (const JsonElement item : list) types |= Types(root, item, left);
  }
  if (types == 0 && schema["enum"].Get(&list)) {
    for (const JsonElement item : list) types |= SchemaTypeOf(item);
  }
  if (types == 0) types = SchemaTypeOf(schema["const"]);
  if (types == 0 && !schema["properties"].missing()) types = kSchemaObject;
  if (types == 0 && !schema["items"].missing()) types = kSchemaArray;
  bool nullable = false;
  if (schema["nullable"].Get(&nullable) && nullable) types |= kSchemaNull;
  return types;
}

}  // namespace

unsigned SchemaTypeOf(JsonElement value) {
  switch (value.type()) {
    case JsonType::kArray:
      return kSchemaArray;
    case JsonType::kObject:
      return kSchemaObject;
    case JsonType::kInt64:
    case JsonType::kUint64:
      return kSchemaInteger;
    case JsonType::kDouble:
      return kSchemaNumber;
    case JsonType::kString:
      return kSchemaString;
    case JsonType::kBool:
      return kSchemaBoolean;
    case JsonType::kNull:
      return kSchemaNull;
    case JsonType::kMissing:
      break;
  }
  return 0;
}

JsonElement SchemaDefinition(const JsonObject& root, std::string_view pointer) {
  JsonElement at;
  if (!pointer.starts_with("#/")) return at;
  pointer.remove_prefix(2);
  const size_t slash = std::min(pointer.find('/'), pointer.size());
  JsonObject definitions;
  if (slash == pointer.size() || !root[pointer.substr(0, slash)].Get(&definitions)) return at;
  const std::string_view name = pointer.substr(slash + 1);
  // Deeper pointers and escapes are not followed.
  return name.find_first_of("/~%") == std::string_view::npos ? definitions[name] : at;
}

unsigned AdmittedTypes(const JsonObject& root, JsonElement schema) {
  int left = kSchemasMax;
  return Types(root, schema, &left);
}

}  // namespace penstock
