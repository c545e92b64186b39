#include "grammar/call_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "grammar/grammar_spec.h"
#include "grammar/schema_rules.h"
#include "json/json.h"
#include "json/json_writer.h"
#include "json/schema_types.h"

namespace penstock::grammar {
namespace {

constexpr int kSchemasMax = 256;  // of one parameter's value: references may go in rounds
constexpr size_t kKeyBytesMax = 256;

// What a text must not have: it would end the value, or begin another.
constexpr std::array<std::string_view, 3> kTags = {"</parameter>", "<parameter=", "</function>"};

bool IsAnnotation(std::string_view key) {
  constexpr std::string_view kAnnotations[] = {
      "title",    "description", "default", "examples", "$comment",    "deprecated",
      "readOnly", "writeOnly",   "$schema", "$id",      "id",          "format",
      "$defs",    "definitions", "example", "nullable", "contentType", "contentEncoding"};
  return std::find(std::begin(kAnnotations), std::end(kAnnotations), key) != std::end(kAnnotations);
}

bool HasTag(std::string_view text) {
  return std::any_of(kTags.begin(), kTags.end(),
                     [&](std::string_view tag) { return text.find(tag) != text.npos; });
}

// --- Schemas ----------------------------------------------------------------------------------

// The bytes of all schemas of values together, each with its definitions.
constexpr size_t kSchemaBytesMax = 1 << 20;

constexpr unsigned kShaped = kSchemaInteger | kSchemaNumber | kSchemaObject | kSchemaArray;

class Reader {
 public:
  explicit Reader(const std::string& field) : field_(field) {}

  Expected<CallParameters> Run(std::string_view text) {
    PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(text));
    JsonObject schema;
    if (document.root().Get(&schema)) {
      root_ = schema;
      PENSTOCK_RETURN_IF_ERROR(ReadRoot());
    }
    return std::move(out_);
  }

 private:
  Status Wrong(const std::string& what) const {
    return Status::InvalidArgument(
        fmt::format("'{}': {}cannot be enforced in the form in which this model writes calls",
                    field_, key_.empty() ? what : fmt::format("'{}' {}", key_, what)),
        field_);
  }

  Status ReadRoot();
  Status ReadParameter(std::string_view key, JsonElement schema, bool required);
  Status Add(JsonElement schema);
  Status AddValues(const JsonArray& values);
  Status AddTyped(const JsonObject& schema);
  Status AddString(const JsonObject& schema);
  Status AddJson(const std::string& schema);
  Status Finish();

  const std::string& field_;
  JsonObject root_;
  CallParameters out_;
  size_t bytes_ = 0;  // of the schemas of values
  // The parameter at hand.
  std::string key_;
  CallParameter parameter_;
  int schemas_ = 0;                 // that were looked at
  unsigned admitted_ = 0;           // types, as what reads the call sees them; 0: any
  bool any_text_ = false;           // its strings are not bounded
  bool has_rules_ = false;          // some of its strings have a pattern or a length
  bool has_listed_ = false;         // some of its JSON are values of a list
  std::vector<std::string> words_;  // its strings that are values of a list
};

Status Reader::ReadRoot() {
  JsonObject properties;
  JsonArray required;
  const bool declares = root_["properties"].Get(&properties);
  (void)root_["required"].Get(&required);
  for (const JsonField field : root_) {
    const bool known = IsAnnotation(field.key) || field.key == "type" ||
                       field.key == "properties" || field.key == "required" ||
                       field.key == "additionalProperties" ||
                       field.key == "unevaluatedProperties" || field.key == "strict";
    if (!known) return Wrong(fmt::format("'{}' ", field.key));
  }
  for (const char* const key : {"additionalProperties", "unevaluatedProperties"}) {
    JsonObject others;
    if (root_[key].Get(&others) && !others.empty()) return Wrong(fmt::format("'{}' ", key));
  }
  std::set<std::string_view> names;
  for (const JsonElement each : required) {
    std::string_view name;
    if (each.Get(&name)) names.insert(name);
  }
  if (declares) {
    for (const JsonField field : properties) {
      const bool is_required = names.erase(field.key) > 0;
      PENSTOCK_RETURN_IF_ERROR(ReadParameter(field.key, field.value, is_required));
    }
  }
  for (const std::string_view name : names) {
    PENSTOCK_RETURN_IF_ERROR(ReadParameter(name, JsonElement(), true));
  }
  bool more = true;
  for (const char* const key : {"additionalProperties", "unevaluatedProperties"}) {
    bool value = true;
    if (root_[key].Get(&value)) more = more && value;
  }
  out_.others = out_.parameters.empty() && more;
  return Status::Ok();
}

Status Reader::ReadParameter(std::string_view key, JsonElement schema, bool required) {
  key_ = key.substr(0, 80);
  const bool plain = !key.empty() && key.size() <= kKeyBytesMax &&
                     key.find_first_of("<>\r\n") == std::string_view::npos;
  if (!plain) return Wrong("is a name that ");
  parameter_ = {std::string(key), required, {}, {}};
  schemas_ = 0;
  admitted_ = AdmittedTypes(root_, schema);
  any_text_ = has_rules_ = has_listed_ = false;
  words_.clear();
  PENSTOCK_RETURN_IF_ERROR(Add(schema));
  PENSTOCK_RETURN_IF_ERROR(Finish());
  out_.parameters.push_back(std::move(parameter_));
  key_.clear();
  return Status::Ok();
}

Status Reader::Add(JsonElement schema) {
  JsonObject object;
  if (++schemas_ > kSchemasMax) return Wrong("has so large a choice that it ");
  bool any = !schema.Get(&object);
  std::string_view form;
  if (!any) {
    any = true;
    for (const JsonField field : object) {
      if (IsAnnotation(field.key)) continue;
      any = false;
      for (const std::string_view each : {"$ref", "const", "enum", "anyOf", "oneOf", "allOf"}) {
        if (field.key == each) form = each;
      }
    }
  }
  if (any) {
    any_text_ = true;
    return Status::Ok();
  }
  JsonArray list;
  if (form.empty()) return AddTyped(object);
  if (form == "$ref") {
    std::string_view pointer;
    const JsonElement target =
        object["$ref"].Get(&pointer) ? SchemaDefinition(root_, pointer) : JsonElement();
    return target.missing() ? Wrong("has a '$ref' that ") : Add(target);
  }
  if (form == "enum" && object["enum"].Get(&list)) return AddValues(list);
  if (form == "const") {
    PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument one,
                              JsonDocument::Parse("[" + object["const"].Text() + "]"));
    (void)one.root().Get(&list);
    return AddValues(list);
  }
  if (!object[form].Get(&list)) return Wrong(fmt::format("has '{}', which ", form));
  if (form == "allOf" && list.size() != 1) return Wrong("has 'allOf', which ");
  for (const JsonElement each : list) PENSTOCK_RETURN_IF_ERROR(Add(each));
  return Status::Ok();
}

Status Reader::AddValues(const JsonArray& values) {
  std::string others;
  unsigned kinds = 0;
  for (const JsonElement value : values) {
    std::string_view word;
    if (value.Get(&word)) {
      words_.emplace_back(word);
      continue;
    }
    others += (others.empty() ? "" : ",") + value.Text();
    kinds |= SchemaTypeOf(value);
  }
  if (others.empty()) return Status::Ok();
  has_listed_ |= (kinds & ~unsigned{kSchemaNull}) != 0;
  return AddJson(fmt::format(R"("enum":[{}])", others));
}

Status Reader::AddTyped(const JsonObject& schema) {
  std::vector<std::string_view> types;
  std::string_view type;
  JsonArray list;
  if (schema["type"].Get(&type)) types.push_back(type);
  if (schema["type"].Get(&list)) {
    for (const JsonElement each : list) {
      if (each.Get(&type) && std::find(types.begin(), types.end(), type) == types.end()) {
        types.push_back(type);
      }
    }
  }
  if (types.empty()) {
    if (!schema["properties"].missing()) types.push_back("object");
    if (!schema["items"].missing()) types.push_back("array");
    if (types.size() != 1) return Wrong("has no type, and so ");
  }
  for (const std::string_view each : types) {
    if (each == "string") {
      PENSTOCK_RETURN_IF_ERROR(AddString(schema));
      continue;
    }
    std::string body = fmt::format(R"("type":"{}")", each);
    for (const JsonField field : schema) {
      if (field.key == "type" || IsAnnotation(field.key)) continue;
      body += ',';
      JsonWriter(&body).String(field.key);
      body += ':' + field.value.Text();
    }
    PENSTOCK_RETURN_IF_ERROR(AddJson(body));
  }
  return Status::Ok();
}

Status Reader::AddString(const JsonObject& schema) {
  if (schema["pattern"].missing() && schema["minLength"].missing() &&
      schema["maxLength"].missing()) {
    any_text_ = true;
    return Status::Ok();
  }
  has_rules_ = true;
  PENSTOCK_ASSIGN_OR_RETURN(std::string rules, StringRules(schema, RegexText::kTag, field_));
  parameter_.texts.push_back(std::move(rules));
  return Status::Ok();
}

// A schema of its own: what it refers to must be in the definitions, which go along.
Status Reader::AddJson(const std::string& schema) {
  std::string all = "{" + schema;
  for (const char* const key : {"$defs", "definitions"}) {
    if (!root_[key].missing()) all += fmt::format(R"(,"{}":{})", key, root_[key].Text());
  }
  all += '}';
  bytes_ += all.size();
  if (bytes_ > kSchemaBytesMax)
    return Wrong("has so large a schema, with its definitions, that it ");
  constexpr std::string_view kRef = R"("$ref":")";
  for (size_t at = 0; (at = all.find(kRef, at)) != std::string::npos;) {
    at += kRef.size();
    const std::string_view target = std::string_view(all).substr(at);
    if (!target.starts_with("#/$defs/") && !target.starts_with("#/definitions/")) {
      return Wrong("has a '$ref' that ");
    }
  }
  parameter_.schemas.push_back(std::move(all));
  return Status::Ok();
}

// What is read back is the value that was meant.
Status Reader::Finish() {
  const unsigned others = admitted_ & ~unsigned{kSchemaString};
  const bool shaped = (others & kShaped) != 0;
  for (const std::string& word : words_) {
    if (HasTag(word)) return Wrong("has a value that ");
    const bool looks_shaped = shaped && word.find_first_of("-0123456789[{ \t\r\n") == 0;
    const bool looks_null = word == "null" || word == "None";
    if (others != 0 && (looks_shaped || looks_null || (others & kSchemaBoolean) != 0)) {
      return Wrong("has strings beside other values, which ");
    }
    parameter_.texts.push_back(Quoted(word));
  }
  if (has_rules_ && (others & ~unsigned{kSchemaNull}) != 0) {
    return Wrong("has bounded strings beside other values, which ");
  }
  if (!any_text_) return Status::Ok();
  if (has_listed_) return Wrong("has strings beside other values, which ");
  parameter_.texts.emplace_back(shaped ? kTagWordsRule : kTagTextRule);
  return Status::Ok();
}

}  // namespace

std::string TagTextRules() {
  std::string tags;
  for (const std::string_view tag : kTags) tags += (tags.empty() ? "" : ", ") + Quoted(tag);
  return fmt::format(
      "{} ::= TagDispatch(loop_after_dispatch=false, excludes=({}))\n"
      "{} ::= \"\" | [^<0-9\\x2d\\x5b\\x7b\\x20\\t\\r\\n] {}\n",
      kTagTextRule, tags, kTagWordsRule, kTagTextRule);
}

Expected<CallParameters> ReadCallParameters(std::string_view schema, const std::string& field) {
  if (schema.empty()) return CallParameters();
  return Reader(field).Run(schema);
}

}  // namespace penstock::grammar
