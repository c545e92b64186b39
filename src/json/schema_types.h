// The types of values that a JSON Schema admits, as far as it says so in plain words.
#pragma once

#include <string_view>

#include "json/json.h"

namespace penstock {

// Bits of a set.
enum SchemaType : unsigned {
  kSchemaNull = 1,
  kSchemaInteger = 2,
  kSchemaNumber = 4,
  kSchemaBoolean = 8,
  kSchemaObject = 16,
  kSchemaArray = 32,
  kSchemaString = 64,
};

// The type of a value; 0: it is missing.
unsigned SchemaTypeOf(JsonElement value);

// What "#/$defs/name" is in `root`; missing: nothing, or a pointer of another form.
JsonElement SchemaDefinition(const JsonObject& root, std::string_view pointer);

// By "type", a list of them, "anyOf", "oneOf", one "allOf", "enum", "const", "nullable", and "$ref"
// to a definition in `root`; without any of them by "properties" and "items". 0: it does not say.
// References may go in rounds: at most 256 schemas are looked at.
unsigned AdmittedTypes(const JsonObject& root, JsonElement schema);

}  // namespace penstock
