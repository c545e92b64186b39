#include "grammar/schema_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <set>
#include <span>
#include <vector>

#include "grammar/grammar_spec.h"
#include "grammar/pattern_size.h"
#include "json/json.h"

namespace penstock::grammar {
namespace {

// All keywords that assert something, but those that every form has: annotations and definitions.
constexpr std::string_view kAssertions[] = {
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "const",
    "enum",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "type",
    "multipleOf",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "pattern",
    "items",
    "prefixItems",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "minContains",
    "maxContains",
    "minItems",
    "maxItems",
    "uniqueItems",
    "properties",
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "required",
    "minProperties",
    "maxProperties",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
};
// Keywords whose value is a schema, an object of schemas, a list of them.
constexpr std::string_view kOfSchema[] = {"items", "additionalProperties", "unevaluatedProperties",
                                          "unevaluatedItems", "propertyNames"};
constexpr std::string_view kOfNames[] = {"$defs", "definitions", "properties", "patternProperties"};
constexpr std::string_view kOfLists[] = {"anyOf", "oneOf", "allOf", "prefixItems"};

bool In(std::string_view word, std::span<const std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// The type of a value as JSON Schema names it; a whole number is an integer.
std::string_view TypeOf(JsonElement value) {
  bool truth = false;
  if (value.is_null()) return "null";
  if (value.Get(&truth)) return "boolean";
  if (value.is_integer()) return "integer";
  if (value.is_number()) return "number";
  if (value.is_string()) return "string";
  return value.is_array() ? "array" : "object";
}

// The types that the keyword "type" admits; empty: it is absent.
std::vector<std::string_view> TypesOf(const JsonObject& schema) {
  std::vector<std::string_view> types;
  std::string_view word;
  JsonArray list;
  const JsonElement type = schema["type"];
  if (type.Get(&word)) types.push_back(word);
  if (type.Get(&list)) {
    for (const JsonElement each : list) {
      if (each.Get(&word)) types.push_back(word);
    }
  }
  return types;
}

bool Admits(const std::vector<std::string_view>& types, std::string_view type) {
  return types.empty() || std::find(types.begin(), types.end(), type) != types.end() ||
         (type == "integer" && std::find(types.begin(), types.end(), "number") != types.end());
}

class SchemaCheck {
 public:
  explicit SchemaCheck(const std::string& field) : field_(field) {}

  Status Run(std::string_view text) {
    auto parsed = JsonDocument::Parse(text);
    if (!parsed.ok()) return Wrong("#", "is not JSON: " + parsed.status().message());
    root_ = parsed->root();
    return Check(root_, "#", 0);
  }

 private:
  Status Wrong(const std::string& at, const std::string& what) const {
    return Status::InvalidArgument(fmt::format("'{}': the schema at {} {}", field_, at, what),
                                   field_);
  }
  // A keyword that has no effect in this form.
  Status Unenforced(const std::string& at, std::string_view keyword,
                    const std::string& beside) const {
    return Wrong(at, fmt::format("has '{}'{}, which cannot be enforced", keyword, beside));
  }

  Status Check(JsonElement schema, const std::string& at, int depth);
  Status CheckKeys(const JsonObject& schema, const std::string& at);
  Status CheckForm(const JsonObject& schema, const std::string& at, int depth);
  Status CheckTyped(const JsonObject& schema, const std::string& at, int depth);
  // What stands beside a form that leaves it out.
  Status CheckAlone(const JsonObject& schema, std::string_view form,
                    std::initializer_list<std::string_view> also, const std::string& at) const;
  Status CheckRef(const JsonObject& schema, const std::string& at) const;
  Status CheckValues(const JsonObject& schema, std::string_view form, const std::string& at) const;
  Status CheckChoice(const JsonObject& schema, std::string_view form, const std::string& at,
                     int depth);
  Status CheckString(const JsonObject& schema, const std::string& at) const;
  Status CheckArray(const JsonObject& schema, const std::string& at, int depth);
  Status CheckObject(const JsonObject& schema, const std::string& at, int depth);
  Status CheckCount(const JsonObject& schema, std::string_view keyword,
                    const std::string& at) const;
  Status CheckMembers(const JsonObject& schema, std::string_view keyword, const std::string& at,
                      int depth);

  const std::string& field_;
  JsonElement root_;
  size_t nodes_ = 0;
};

Status SchemaCheck::Check(JsonElement schema, const std::string& at, int depth) {
  if (++nodes_ > kSchemaNodesMax) {
    return Wrong("#", fmt::format("has more than {} schemas inside", kSchemaNodesMax));
  }
  if (depth > kSchemaDepthMax) {
    return Wrong(at, fmt::format("is nested deeper than {}", kSchemaDepthMax));
  }
  bool any = false;
  if (schema.Get(&any)) return any ? Status::Ok() : Wrong(at, "is false: no value holds to it");
  JsonObject object;
  if (!schema.Get(&object)) return Wrong(at, "must be an object");
  PENSTOCK_RETURN_IF_ERROR(CheckKeys(object, at));
  return CheckForm(object, at, depth);
}

Status SchemaCheck::CheckKeys(const JsonObject& schema, const std::string& at) {
  std::set<std::string_view> seen;
  for (const JsonField field : schema) {
    if (!seen.insert(field.key).second) {
      return Wrong(at, fmt::format("has '{}' twice", field.key.substr(0, 60)));
    }
  }
  for (const std::string_view never : {"not", "if", "dependentRequired", "dependentSchemas",
                                       "dependencies", "$dynamicRef", "$recursiveRef"}) {
    if (!schema[never].missing()) return Unenforced(at, never, "");
  }
  // Definitions are schemas that references name.
  for (const std::string_view keyword : {"$defs", "definitions"}) {
    PENSTOCK_RETURN_IF_ERROR(CheckMembers(schema, keyword, at, 0));
  }
  return Status::Ok();
}

// The order is that in which forms go before one another.
Status SchemaCheck::CheckForm(const JsonObject& schema, const std::string& at, int depth) {
  if (!schema["$ref"].missing()) return CheckRef(schema, at);
  for (const std::string_view form : {"const", "enum"}) {
    if (!schema[form].missing()) return CheckValues(schema, form, at);
  }
  for (const std::string_view form : {"anyOf", "oneOf", "allOf"}) {
    if (!schema[form].missing()) return CheckChoice(schema, form, at, depth);
  }
  return CheckTyped(schema, at, depth);
}

Status SchemaCheck::CheckAlone(const JsonObject& schema, std::string_view form,
                               std::initializer_list<std::string_view> also,
                               const std::string& at) const {
  for (const JsonField field : schema) {
    if (field.key == form || !In(field.key, kAssertions) ||
        std::find(also.begin(), also.end(), field.key) != also.end()) {
      continue;
    }
    return Unenforced(at, field.key, fmt::format(" beside '{}'", form));
  }
  return Status::Ok();
}

Status SchemaCheck::CheckRef(const JsonObject& schema, const std::string& at) const {
  PENSTOCK_RETURN_IF_ERROR(CheckAlone(schema, "$ref", {}, at));
  std::string_view target;
  if (!schema["$ref"].Get(&target)) return Wrong(at, "has a '$ref' that must be a text");
  if (target == "#") return Status::Ok();
  if (!target.starts_with("#/") || target.find_first_of("~%") != std::string_view::npos) {
    return Wrong(at, fmt::format("has the reference '{}'; those that begin with #/ can be followed",
                                 target.substr(0, 80)));
  }
  JsonElement found = root_;
  std::string_view rest = target.substr(2);
  const auto next = [&] {
    const size_t end = std::min(rest.find('/'), rest.size());
    const std::string_view name = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return name;
  };
  while (!rest.empty() && !found.missing()) {
    const std::string_view keyword = next();
    found = found[keyword];
    JsonArray list;
    if (In(keyword, kOfSchema)) continue;
    if (In(keyword, kOfNames)) {
      found = found[next()];
    } else if (In(keyword, kOfLists) && found.Get(&list)) {
      const std::string_view digits = next();
      size_t index = list.size();
      (void)std::from_chars(digits.data(), digits.data() + digits.size(), index);
      found = list[index];
    } else {
      found = JsonElement();
    }
  }
  bool any = false;
  if (!found.is_object() && !found.Get(&any)) {
    return Wrong(at, fmt::format("refers to '{}', but schemas that are referred to must "
                                 "stand in '$defs'",
                                 target.substr(0, 80)));
  }
  return Status::Ok();
}

Status SchemaCheck::CheckValues(const JsonObject& schema, std::string_view form,
                                const std::string& at) const {
  PENSTOCK_RETURN_IF_ERROR(CheckAlone(schema, form, {"type"}, at));
  const std::vector<std::string_view> types = TypesOf(schema);
  const auto check = [&](JsonElement value) {
    if (Admits(types, TypeOf(value))) return Status::Ok();
    return Wrong(at, fmt::format("has the value {} in '{}', which is not of its type",
                                 value.Text().substr(0, 60), form));
  };
  if (form == "const") return check(schema["const"]);
  JsonArray values;
  if (!schema["enum"].Get(&values) || values.empty()) {
    return Wrong(at, "has an 'enum' that must be a list of values");
  }
  if (values.size() > kEnumMax) {
    return Wrong(
        at, fmt::format("has {} values in 'enum'; at most {} are taken", values.size(), kEnumMax));
  }
  for (const JsonElement value : values) PENSTOCK_RETURN_IF_ERROR(check(value));
  return Status::Ok();
}

Status SchemaCheck::CheckChoice(const JsonObject& schema, std::string_view form,
                                const std::string& at, int depth) {
  PENSTOCK_RETURN_IF_ERROR(CheckAlone(schema, form, {"type"}, at));
  JsonArray choices;
  if (!schema[form].Get(&choices) || choices.empty()) {
    return Wrong(at, fmt::format("has an '{}' that must be a list of schemas", form));
  }
  if (form == "allOf" && choices.size() > 1) return Unenforced(at, form, " of several schemas");
  const std::vector<std::string_view> types = TypesOf(schema);
  size_t index = 0;
  for (const JsonElement choice : choices) {
    const std::string place = fmt::format("{}/{}/{}", at, form, index++);
    PENSTOCK_RETURN_IF_ERROR(Check(choice, place, depth + 1));
    if (types.empty()) continue;
    // The type beside the choices holds where each says it, too.
    JsonObject object;
    const std::vector<std::string_view> own =
        choice.Get(&object) ? TypesOf(object) : std::vector<std::string_view>();
    const bool same = !own.empty() && std::all_of(own.begin(), own.end(),
                                                  [&](auto type) { return Admits(types, type); });
    if (!same) return Unenforced(at, "type", fmt::format(" beside '{}'", form));
  }
  return Status::Ok();
}

Status SchemaCheck::CheckTyped(const JsonObject& schema, const std::string& at, int depth) {
  std::vector<std::string_view> types = TypesOf(schema);
  const bool told = !schema["type"].missing();
  if (told && types.empty()) return Wrong(at, "has a 'type' that must be a text or a list of them");
  for (const std::string_view type : types) {
    if (!In(type, std::initializer_list<std::string_view>{"null", "boolean", "integer", "number",
                                                          "string", "array", "object"})) {
      return Wrong(at, fmt::format("has the unknown type '{}'", type.substr(0, 40)));
    }
  }
  if (!told) {
    // These alone make it an object, or an array.
    const auto has = [&](std::string_view keyword) { return !schema[keyword].missing(); };
    if (has("properties") || has("additionalProperties") || has("unevaluatedProperties")) {
      types = {"object"};
    } else if (has("items") || has("prefixItems") || has("unevaluatedItems")) {
      types = {"array"};
    } else {
      for (const JsonField field : schema) {
        if (In(field.key, kAssertions)) return Unenforced(at, field.key, " without a 'type'");
      }
    }
  }
  for (const std::string_view type : types) {
    if ((type == "number" && !schema["multipleOf"].missing())) {
      return Unenforced(at, "multipleOf", " of numbers that are not integers");
    }
    if (type == "string") PENSTOCK_RETURN_IF_ERROR(CheckString(schema, at));
    if (type == "array") PENSTOCK_RETURN_IF_ERROR(CheckArray(schema, at, depth));
    if (type == "object") PENSTOCK_RETURN_IF_ERROR(CheckObject(schema, at, depth));
  }
  return Status::Ok();
}

Status SchemaCheck::CheckCount(const JsonObject& schema, std::string_view keyword,
                               const std::string& at) const {
  const JsonElement value = schema[keyword];
  if (value.missing()) return Status::Ok();
  int64_t count = 0;
  if (!value.Get(&count) || count < 0) {
    return Wrong(at, fmt::format("has a '{}' that must be a whole number of at least 0", keyword));
  }
  if (count > kRepeatsMax) {
    return Wrong(at,
                 fmt::format("has a '{}' of {}; at most {} is taken", keyword, count, kRepeatsMax));
  }
  return Status::Ok();
}

Status SchemaCheck::CheckString(const JsonObject& schema, const std::string& at) const {
  for (const std::string_view keyword : {"minLength", "maxLength"}) {
    PENSTOCK_RETURN_IF_ERROR(CheckCount(schema, keyword, at));
  }
  if (schema["pattern"].missing()) return Status::Ok();
  std::string_view pattern;
  if (!schema["pattern"].Get(&pattern)) return Wrong(at, "has a 'pattern' that must be a text");
  for (const std::string_view keyword : {"minLength", "maxLength"}) {
    if (!schema[keyword].missing()) return Unenforced(at, keyword, " beside 'pattern'");
  }
  if (pattern.size() > kRegexBytesMax) {
    return Wrong(at, fmt::format("has a 'pattern' of {} bytes; at most {} are taken",
                                 pattern.size(), kRegexBytesMax));
  }
  const Status size = CheckPatternSize(pattern, PatternKind::kRegex);
  return size.ok() ? size : Wrong(at, "has a 'pattern' that " + size.message());
}

Status SchemaCheck::CheckArray(const JsonObject& schema, const std::string& at, int depth) {
  bool unique = true;
  if (!schema["uniqueItems"].missing() && (!schema["uniqueItems"].Get(&unique) || unique)) {
    return Unenforced(at, "uniqueItems", "");
  }
  if (!schema["contains"].missing()) return Unenforced(at, "contains", "");
  for (const std::string_view keyword : {"minItems", "maxItems"}) {
    PENSTOCK_RETURN_IF_ERROR(CheckCount(schema, keyword, at));
  }
  JsonArray first;
  size_t index = 0;
  if (schema["prefixItems"].Get(&first)) {
    for (const JsonElement item : first) {
      PENSTOCK_RETURN_IF_ERROR(
          Check(item, fmt::format("{}/prefixItems/{}", at, index++), depth + 1));
    }
  }
  if (schema["items"].is_array()) return Unenforced(at, "items", " as a list: use 'prefixItems'");
  for (const std::string_view keyword : {"items", "unevaluatedItems"}) {
    const JsonElement items = schema[keyword];
    bool any = true;
    if (items.missing() || (items.Get(&any) && !any)) continue;
    PENSTOCK_RETURN_IF_ERROR(Check(items, fmt::format("{}/{}", at, keyword), depth + 1));
  }
  return Status::Ok();
}

Status SchemaCheck::CheckMembers(const JsonObject& schema, std::string_view keyword,
                                 const std::string& at, int depth) {
  const JsonElement members = schema[keyword];
  if (members.missing()) return Status::Ok();
  JsonObject object;
  if (!members.Get(&object))
    return Wrong(at, fmt::format("has a '{}' that must be an object", keyword));
  for (const JsonField member : object) {
    PENSTOCK_RETURN_IF_ERROR(Check(
        member.value, fmt::format("{}/{}/{}", at, keyword, member.key.substr(0, 60)), depth + 1));
  }
  return Status::Ok();
}

Status SchemaCheck::CheckObject(const JsonObject& schema, const std::string& at, int depth) {
  for (const std::string_view keyword : {"minProperties", "maxProperties"}) {
    PENSTOCK_RETURN_IF_ERROR(CheckCount(schema, keyword, at));
  }
  JsonObject properties;
  if (schema["properties"].Get(&properties) && properties.size() > kPropertiesMax) {
    return Wrong(at, fmt::format("has {} properties; at most {} are taken", properties.size(),
                                 kPropertiesMax));
  }
  JsonArray required;
  if (!schema["required"].missing() && !schema["required"].Get(&required)) {
    return Wrong(at, "has a 'required' that must be a list");
  }
  for (const JsonElement name : required) {
    if (!name.is_string()) return Wrong(at, "has a 'required' with more than names");
  }
  for (const std::string_view keyword : {"properties", "patternProperties"}) {
    PENSTOCK_RETURN_IF_ERROR(CheckMembers(schema, keyword, at, depth));
  }
  for (const std::string_view keyword :
       {"additionalProperties", "unevaluatedProperties", "propertyNames"}) {
    const JsonElement each = schema[keyword];
    bool any = true;
    if (each.missing() || each.Get(&any)) continue;
    PENSTOCK_RETURN_IF_ERROR(Check(each, fmt::format("{}/{}", at, keyword), depth + 1));
  }
  return Status::Ok();
}

}  // namespace

Status CheckSchema(std::string_view schema, const std::string& field) {
  return SchemaCheck(field).Run(schema);
}

}  // namespace penstock::grammar
