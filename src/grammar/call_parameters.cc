#include "grammar/call_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "common/json.h"
#include "common/json_writer.h"
#include "grammar/grammar_spec.h"
#include "grammar/schema_rules.h"

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

// --- Text without tags ------------------------------------------------------------------------

// The characters that go on from `prefix` towards a tag, without those that end one.
std::set<char> NextOf(std::string_view prefix, bool all) {
  std::set<char> next;
  for (const std::string_view tag : kTags) {
    if (!tag.starts_with(prefix) || tag.size() == prefix.size()) continue;
    if (all || tag.size() > prefix.size() + 1) next.insert(tag[prefix.size()]);
  }
  return next;
}

std::string NameOf(std::string_view kind, std::string_view prefix) {
  std::string name = fmt::format("penstock_tag_{}", kind);
  for (const char c : prefix.substr(1)) name += fmt::format("_{:02x}", static_cast<int>(c));
  return name;
}

// Rules for what follows `prefix`, the beginning of a tag, and for the prefixes after it. `inside`:
// up to a character that no tag has there. `end`: the text ends before.
void AppendPrefixRules(const std::string& prefix, std::string* rules) {
  std::string excluded;
  for (const char c : NextOf(prefix, true)) excluded += c;
  std::string inside = fmt::format("[^<{}]", excluded);
  std::string end = "\"\"";
  const auto add = [&](std::string_view literal, std::string_view next) {
    inside += fmt::format(" | \"{}\" {}", literal, NameOf("in", next));
    end += fmt::format(" | \"{}\" {}", literal, NameOf("end", next));
  };
  add("<", "<");
  for (const char c : NextOf(prefix, false)) add(std::string(1, c), prefix + c);
  *rules += fmt::format("{} ::= {}\n{} ::= {}\n", NameOf("in", prefix), inside,
                        NameOf("end", prefix), end);
  for (const char c : NextOf(prefix, false)) AppendPrefixRules(prefix + c, rules);
}

// --- Schemas ----------------------------------------------------------------------------------

enum Kind : unsigned { kNull = 1, kBoolean = 2, kNumber = 4, kObject = 8, kArray = 16 };

unsigned KindOf(std::string_view type) {
  if (type == "null") return kNull;
  if (type == "boolean") return kBoolean;
  if (type == "integer" || type == "number") return kNumber;
  return type == "array" ? kArray : kObject;
}

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
  void AddJson(const std::string& schema, unsigned kinds);
  Status Finish();
  bool Resolve(std::string_view pointer, JsonElement* schema) const;

  const std::string& field_;
  JsonObject root_;
  CallParameters out_;
  // The parameter at hand.
  std::string key_;
  CallParameter parameter_;
  int schemas_ = 0;                 // that were looked at
  unsigned kinds_ = 0;              // of its values that are JSON
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
  std::vector<std::string_view> names;
  for (const JsonElement each : required) {
    std::string_view name;
    if (each.Get(&name)) names.push_back(name);
  }
  const auto is_required = [&](std::string_view key) {
    return std::find(names.begin(), names.end(), key) != names.end();
  };
  if (declares) {
    for (const JsonField field : properties) {
      PENSTOCK_RETURN_IF_ERROR(ReadParameter(field.key, field.value, is_required(field.key)));
    }
  }
  for (const std::string_view name : names) {
    const bool there = std::any_of(out_.parameters.begin(), out_.parameters.end(),
                                   [&](const CallParameter& one) { return one.key == name; });
    if (!there) PENSTOCK_RETURN_IF_ERROR(ReadParameter(name, JsonElement(), true));
  }
  bool more = true;
  (void)root_["additionalProperties"].Get(&more);
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
  kinds_ = 0;
  any_text_ = has_rules_ = has_listed_ = false;
  words_.clear();
  PENSTOCK_RETURN_IF_ERROR(Add(schema));
  PENSTOCK_RETURN_IF_ERROR(Finish());
  out_.parameters.push_back(std::move(parameter_));
  key_.clear();
  return Status::Ok();
}

// Follows "#/$defs/name".
bool Reader::Resolve(std::string_view pointer, JsonElement* schema) const {
  if (!pointer.starts_with("#/")) return false;
  pointer.remove_prefix(2);
  const size_t slash = pointer.find('/');
  if (slash == std::string_view::npos) return false;
  JsonObject definitions;
  if (!root_[pointer.substr(0, slash)].Get(&definitions)) return false;
  const std::string_view name = pointer.substr(slash + 1);
  if (name.find_first_of("/~%") != std::string_view::npos) return false;
  *schema = definitions[name];
  return !schema->missing();
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
    JsonElement target;
    if (!object["$ref"].Get(&pointer) || !Resolve(pointer, &target)) {
      return Wrong("has a '$ref' that ");
    }
    return Add(target);
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
    bool truth = false;
    kinds |= value.is_null()     ? kNull
             : value.Get(&truth) ? kBoolean
             : value.is_number() ? kNumber
             : value.is_array()  ? kArray
                                 : kObject;
  }
  if (others.empty()) return Status::Ok();
  has_listed_ |= (kinds & ~unsigned{kNull}) != 0;
  AddJson(fmt::format(R"("enum":[{}])", others), kinds);
  return Status::Ok();
}

Status Reader::AddTyped(const JsonObject& schema) {
  std::vector<std::string_view> types;
  std::string_view type;
  JsonArray list;
  if (schema["type"].Get(&type)) types.push_back(type);
  if (schema["type"].Get(&list)) {
    for (const JsonElement each : list) {
      if (each.Get(&type)) types.push_back(type);
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
    AddJson(body, KindOf(each));
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

void Reader::AddJson(const std::string& schema, unsigned kinds) {
  std::string all = "{" + schema;
  for (const char* const key : {"$defs", "definitions"}) {
    if (!root_[key].missing()) all += fmt::format(R"(,"{}":{})", key, root_[key].Text());
  }
  parameter_.schemas.push_back(all + "}");
  kinds_ |= kinds;
}

// What is read back is the value that was meant.
Status Reader::Finish() {
  const bool shaped = (kinds_ & (kNumber | kObject | kArray)) != 0;
  for (const std::string& word : words_) {
    if (HasTag(word)) return Wrong("has a value that ");
    const bool looks_shaped = shaped && word.find_first_of("-0123456789[{ \t\r\n") == 0;
    const bool looks_null = word == "null" || word == "None";
    if (kinds_ != 0 && (looks_shaped || looks_null || (kinds_ & kBoolean) != 0)) {
      return Wrong("has strings beside other values, which ");
    }
    parameter_.texts.push_back(Quoted(word));
  }
  if (kinds_ != 0 && has_rules_ && (shaped || (kinds_ & kBoolean) != 0)) {
    return Wrong("has bounded strings beside other values, which ");
  }
  if (!any_text_) return Status::Ok();
  if (has_listed_) return Wrong("has strings beside other values, which ");
  parameter_.texts.emplace_back(shaped ? kTagWordsRule : kTagTextRule);
  return Status::Ok();
}

}  // namespace

std::string TagTextRules() {
  std::string rules;
  const std::string in = NameOf("in", "<"), end = NameOf("end", "<");
  rules += fmt::format("penstock_tag_part ::= [^<] | \"<\" {}\n", in);
  rules += fmt::format("penstock_tag_tail ::= \"\" | \"<\" {}\n", end);
  rules += fmt::format("{} ::= penstock_tag_part* penstock_tag_tail\n", kTagTextRule);
  rules += fmt::format(
      "{} ::= \"\" | ([^<0-9\\x2d\\x5b\\x7b\\x20\\t\\r\\n] | \"<\" {}) penstock_tag_part* "
      "penstock_tag_tail\n",
      kTagWordsRule, in);
  AppendPrefixRules("<", &rules);
  return rules;
}

Expected<CallParameters> ReadCallParameters(std::string_view schema, const std::string& field) {
  if (schema.empty()) return CallParameters();
  return Reader(field).Run(schema);
}

}  // namespace penstock::grammar
