#include "grammar/schema_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "json/json_writer.h"

namespace penstock::grammar {
namespace {

// A character that is written as it is: no half of a surrogate pair; in a JSON string no control,
// and between tags no begin of one.
std::string_view CharacterOf(RegexText text) {
  switch (text) {
    case RegexText::kJson:
      return R"([^\x00-\x1f"\\\U0000D800-\U0000DFFF])";
    case RegexText::kJsonInTag:
      return R"([^\x00-\x1f"\\<\U0000D800-\U0000DFFF])";
    case RegexText::kTag:
      return R"([^<\U0000D800-\U0000DFFF])";
    case RegexText::kPlain:
      break;
  }
  return R"([^\U0000D800-\U0000DFFF])";
}
// So many characters are counted by states of their own, whose masks are made beforehand; more are
// counted in runs of that length.
constexpr int64_t kCountedRun = 128;

// From `least` to `most` of these characters; negative: any number.
std::string Characters(int64_t least, int64_t most, RegexText text) {
  const std::string_view character = CharacterOf(text);
  const auto counted = [character](int64_t from, int64_t to) {
    return to < 0 ? fmt::format("{}{{{},}}", character, from)
                  : fmt::format("{}{{{},{}}}", character, from, to);
  };
  if (least > kCountedRun) {
    return fmt::format(
        "({}){{{}}} {}", counted(kCountedRun, kCountedRun), least / kCountedRun,
        Characters(least % kCountedRun, most < 0 ? most : most - least / kCountedRun * kCountedRun,
                   text));
  }
  if (most - least < kCountedRun) return counted(least, most);
  const int64_t more = most - least;
  const int64_t runs = more / kCountedRun;
  const std::string run = counted(kCountedRun, kCountedRun);
  return fmt::format("{} (({}){{0,{}}} {} | ({}){{{}}} {})", counted(least, least), run, runs - 1,
                     counted(0, kCountedRun - 1), run, runs, counted(0, more % kCountedRun));
}

constexpr std::string_view kConstant = "penstock-rule-";

bool Is(std::string_view key, std::initializer_list<std::string_view> keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

class Rewriter {
 public:
  Rewriter(const std::string& field, RegexText text) : field_(field), place_(text) {}

  Expected<SchemaRules> Run(std::string_view text) {
    if (text.find(kConstant) != std::string_view::npos) {
      return Status::InvalidArgument(
          fmt::format("'{}': the schema has the text '{}', which stands for rules", field_,
                      kConstant),
          field_);
    }
    PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(text));
    PENSTOCK_RETURN_IF_ERROR(Write(document.root()));
    out_.schema = std::move(text_);
    return std::move(out_);
  }

 private:
  void Key(std::string_view key) {
    text_ += text_.back() == '{' ? "" : ",";
    JsonWriter(&text_).String(key);
    text_ += ':';
  }

  Status Write(JsonElement schema);
  Status WriteObject(const JsonObject& schema, std::string_view without_type);
  Status WriteMembers(const JsonObject& schema, const JsonObject& members, bool properties);
  Status WriteList(const JsonArray& schemas);
  // The constant of a string with a pattern or a length.
  Status WriteString(const JsonObject& schema);

  const std::string& field_;
  const RegexText place_;
  std::string text_;
  SchemaRules out_;
};

Status Rewriter::Write(JsonElement schema) {
  JsonObject object;
  if (!schema.Get(&object)) {
    text_ += schema.Text();
    return Status::Ok();
  }
  bool of_form = false;
  for (const std::string_view form : {"$ref", "const", "enum", "anyOf", "oneOf", "allOf"}) {
    of_form |= !object[form].missing();
  }
  const bool bounded = !object["pattern"].missing() || !object["minLength"].missing() ||
                       !object["maxLength"].missing();
  std::string_view type;
  if (of_form || !bounded) return WriteObject(object, "");
  if (object["type"].Get(&type)) {
    return type == "string" ? WriteString(object) : WriteObject(object, "");
  }
  JsonArray types;
  if (!object["type"].Get(&types)) return WriteObject(object, "");
  bool has_string = false;
  for (const JsonElement each : types) has_string |= each.Get(&type) && type == "string";
  if (!has_string) return WriteObject(object, "");
  if (types.size() == 1) return WriteString(object);
  text_ += R"({"anyOf":[)";
  PENSTOCK_RETURN_IF_ERROR(WriteString(object));
  text_ += ',';
  PENSTOCK_RETURN_IF_ERROR(WriteObject(object, "string"));
  text_ += "]}";
  return Status::Ok();
}

Status Rewriter::WriteString(const JsonObject& schema) {
  PENSTOCK_ASSIGN_OR_RETURN(std::string expression, StringRules(schema, place_, field_));
  const std::string constant = fmt::format("{}{}", kConstant, out_.rules.size());
  text_ += fmt::format(R"({{"const":"{}"}})", constant);
  out_.rules.push_back({constant, std::move(expression)});
  return Status::Ok();
}

Status Rewriter::WriteList(const JsonArray& schemas) {
  text_ += '[';
  for (const JsonElement schema : schemas) {
    if (text_.back() != '[') text_ += ',';
    PENSTOCK_RETURN_IF_ERROR(Write(schema));
  }
  text_ += ']';
  return Status::Ok();
}

Status Rewriter::WriteMembers(const JsonObject& schema, const JsonObject& members,
                              bool properties) {
  text_ += '{';
  for (const JsonField member : members) {
    Key(member.key);
    PENSTOCK_RETURN_IF_ERROR(Write(member.value));
  }
  JsonArray required;
  if (properties && schema["required"].Get(&required)) {
    std::vector<std::string_view> added;
    for (const JsonElement name : required) {
      std::string_view key;
      if (!name.Get(&key) || !members[key].missing() ||
          std::find(added.begin(), added.end(), key) != added.end()) {
        continue;
      }
      added.push_back(key);
      Key(key);
      const JsonElement additional = schema["additionalProperties"];
      if (additional.is_object()) {
        PENSTOCK_RETURN_IF_ERROR(Write(additional));
      } else {
        text_ += "{}";
      }
    }
  }
  text_ += '}';
  return Status::Ok();
}

Status Rewriter::WriteObject(const JsonObject& schema, std::string_view without_type) {
  JsonObject properties;
  JsonArray required;
  const bool declares = (schema["properties"].Get(&properties) && !properties.empty()) ||
                        (schema["required"].Get(&required) && !required.empty());
  bool closed = false;
  text_ += '{';
  if (declares) {
    Key("properties");
    PENSTOCK_RETURN_IF_ERROR(WriteMembers(schema, properties, true));
  }
  for (const JsonField field : schema) {
    JsonObject members;
    JsonArray list;
    if (Is(field.key, {"title", "description", "default", "examples", "$comment", "deprecated",
                       "readOnly", "writeOnly", "properties", "$schema", "$id", "id"})) {
      continue;
    }
    if (InTag(place_)) {
      // The library's own rules of these may have a '<'.
      if (field.key == "format") continue;
      if (Is(field.key, {"patternProperties", "propertyNames"})) {
        return Status::InvalidArgument(
            fmt::format(
                "'{}': '{}' cannot be enforced in the form in which this model writes calls",
                field_, field.key),
            field_);
      }
    }
    if (declares && Is(field.key, {"additionalProperties", "unevaluatedProperties",
                                   "patternProperties", "propertyNames"})) {
      if (!std::exchange(closed, true)) {
        Key("additionalProperties");
        text_ += "false";
      }
      continue;
    }
    Key(field.key);
    if (field.key == "type" && !without_type.empty() && field.value.Get(&list)) {
      text_ += '[';
      for (const JsonElement type : list) {
        std::string_view word;
        if (type.Get(&word) && word == without_type) continue;
        text_ += (text_.back() == '[' ? "" : ",") + type.Text();
      }
      text_ += ']';
    } else if (Is(field.key, {"$defs", "definitions", "patternProperties"}) &&
               field.value.Get(&members)) {
      PENSTOCK_RETURN_IF_ERROR(WriteMembers(schema, members, false));
    } else if (Is(field.key, {"anyOf", "oneOf", "allOf", "prefixItems"}) &&
               field.value.Get(&list)) {
      PENSTOCK_RETURN_IF_ERROR(WriteList(list));
    } else if (Is(field.key, {"items", "additionalProperties", "unevaluatedProperties",
                              "unevaluatedItems", "propertyNames"})) {
      PENSTOCK_RETURN_IF_ERROR(Write(field.value));
    } else {
      text_ += field.value.Text();
    }
  }
  text_ += '}';
  return Status::Ok();
}

}  // namespace

Expected<SchemaRules> RewriteSchema(std::string_view schema, const std::string& field,
                                    RegexText text) {
  return Rewriter(field, text).Run(schema);
}

Expected<std::string> StringRules(const JsonObject& schema, RegexText text,
                                  const std::string& field) {
  std::string_view pattern;
  if (schema["pattern"].Get(&pattern)) {
    auto rules = RegexRules(pattern, text);
    if (rules.ok()) return rules;
    return Status::InvalidArgument(fmt::format("'{}': the pattern '{}' {}", field,
                                               pattern.substr(0, 80), rules.status().message()),
                                   field);
  }
  int64_t least = 0;
  int64_t most = -1;
  (void)schema["minLength"].Get(&least);
  (void)schema["maxLength"].Get(&most);
  if (most >= 0 && most < least) {
    return Status::InvalidArgument(
        fmt::format("'{}': a 'minLength' of {} is above the 'maxLength' of {}", field, least, most),
        field);
  }
  return "(" + Characters(least, most, text) + ")";
}

}  // namespace penstock::grammar
