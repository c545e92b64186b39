// Whether a JSON Schema can be enforced as it is written.
//
// A grammar describes JSON keyword by keyword in one of few forms: a reference, a constant, a list
// of values, a choice of schemas, or one type with the keywords of that type. What stands beside a
// form and would have no effect there is refused by its name, instead of being left out in silence:
// an answer that is given holds to the whole schema. Keywords that assert nothing (title, format,
// unknown ones, those of another type) pass, as the standard has it.
// https://json-schema.org/draft/2020-12/json-schema-validation
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace penstock::grammar {

inline constexpr int kSchemaDepthMax = 48;
inline constexpr size_t kSchemaNodesMax = 20'000;  // schemas inside of it
inline constexpr size_t kEnumMax = 5'000;          // values of one list
inline constexpr size_t kPropertiesMax = 512;      // of one object

// kInvalidArgument with `field`: the message has the place in the schema, "#/properties/a", and the
// keyword or the bound.
Status CheckSchema(std::string_view schema, const std::string& field);

}  // namespace penstock::grammar
