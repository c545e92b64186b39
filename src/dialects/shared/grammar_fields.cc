#include "dialects/shared/grammar_fields.h"

#include <utility>

#include "dialects/shared/fields.h"

namespace penstock::dialects {
namespace {

using grammar::GrammarKind;
using grammar::GrammarSpec;
using OptionalSpec = Expected<std::optional<GrammarSpec>>;

Status Wrong(const std::string& field, const std::string& what) {
  return Status::InvalidArgument("'" + field + "' " + what, field);
}

// A text under `key`.
OptionalSpec ReadText(const JsonObject& object, std::string_view key, GrammarKind kind,
                      const std::string& field) {
  if (!object.Has(key)) return std::optional<GrammarSpec>();
  GrammarSpec spec{kind, "", {}, field};
  if (!object[key].Get(&spec.text)) return Wrong(field, "must be a text");
  return std::optional(std::move(spec));
}

OptionalSpec ReadChoice(const JsonObject& object, std::string_view key, const std::string& field) {
  if (!object.Has(key)) return std::optional<GrammarSpec>();
  GrammarSpec spec{GrammarKind::kChoice, "", {}, field};
  JsonArray choices;
  if (!object[key].Get(&choices)) return Wrong(field, "must be an array of texts");
  for (const JsonElement choice : choices) {
    std::string text;
    if (!choice.Get(&text)) return Wrong(field, "must be an array of texts");
    spec.choices.push_back(std::move(text));
    if (spec.choices.size() > grammar::kChoicesMax) {
      return Wrong(field, "has more than " + std::to_string(grammar::kChoicesMax) + " choices");
    }
  }
  return std::optional(std::move(spec));
}

OptionalSpec ReadStructuredOutputs(const JsonObject& object) {
  const std::string field = "structured_outputs";
  if (!object.Has(field)) return std::optional<GrammarSpec>();
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject form, object.GetObject(field));
  if (form.Has("structural_tag")) return Wrong(field + ".structural_tag", "is not supported");
  PENSTOCK_ASSIGN_OR_RETURN(auto found, ReadSchema(form, "json", field + ".json"));
  const auto take = [&](OptionalSpec next) -> Status {
    PENSTOCK_RETURN_IF_ERROR(next.status());
    if (*next && found) return Wrong(field, "asks for two forms at once");
    if (*next) found = *std::move(next);
    return Status::Ok();
  };
  PENSTOCK_RETURN_IF_ERROR(take(ReadText(form, "regex", GrammarKind::kRegex, field + ".regex")));
  PENSTOCK_RETURN_IF_ERROR(take(ReadChoice(form, "choice", field + ".choice")));
  PENSTOCK_RETURN_IF_ERROR(
      take(ReadText(form, "grammar", GrammarKind::kRules, field + ".grammar")));
  PENSTOCK_ASSIGN_OR_RETURN(const bool json, form.GetBoolOr("json_object", false));
  if (json) {
    PENSTOCK_RETURN_IF_ERROR(
        take(std::optional(GrammarSpec{GrammarKind::kJson, "", {}, field + ".json_object"})));
  }
  if (!found) return Wrong(field, "has none of json, json_object, regex, choice and grammar");
  return found;
}

}  // namespace

Expected<std::optional<GrammarSpec>> ReadSchema(const JsonObject& object, std::string_view key,
                                                const std::string& field) {
  if (!object.Has(key)) return std::optional<GrammarSpec>();
  GrammarSpec spec{GrammarKind::kJsonSchema, "", {}, field};
  const JsonElement schema = object[key];
  bool any = false;
  if (schema.is_object() || schema.Get(&any)) {
    spec.text = schema.Text();
  } else if (!schema.Get(&spec.text)) {
    return Wrong(field, "must be a JSON schema");
  }
  return std::optional(std::move(spec));
}

Expected<std::optional<GrammarSpec>> ReadResponseFormat(const JsonObject& object,
                                                        std::string_view key) {
  const std::string field = object.PathOf(key);
  if (!object.Has(key)) return std::optional<GrammarSpec>();
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject format, object.GetObject(key));
  PENSTOCK_ASSIGN_OR_RETURN(const std::string type, GetName(format, "type"));
  if (type == "text") return std::optional<GrammarSpec>();
  if (type == "json_object") {
    // Of Cohere's second version, and its first.
    const std::string schema = format.Has("json_schema") ? "json_schema" : "schema";
    PENSTOCK_ASSIGN_OR_RETURN(auto spec, ReadSchema(format, schema, field + "." + schema));
    return spec ? std::move(spec) : std::optional(GrammarSpec{GrammarKind::kJson, "", {}, field});
  }
  if (type == "json_schema") {
    const bool nested = format.Has("json_schema");
    JsonObject holder = format;
    if (nested) {
      PENSTOCK_ASSIGN_OR_RETURN(holder, format.GetObject("json_schema"));
    }
    const std::string name = nested ? field + ".json_schema.schema" : field + ".schema";
    PENSTOCK_ASSIGN_OR_RETURN(auto spec, ReadSchema(holder, "schema", name));
    if (!spec) return Wrong(name, "is missing");
    return spec;
  }
  return Wrong(field, "of type \"" + type.substr(0, 40) +
                          "\" is not supported; \"text\", \"json_object\" and \"json_schema\" are");
}

Expected<std::optional<GrammarSpec>> ReadGrammar(const JsonObject& object) {
  std::optional<GrammarSpec> found;
  const auto take = [&](OptionalSpec next) -> Status {
    PENSTOCK_RETURN_IF_ERROR(next.status());
    if (*next && found) {
      return Wrong((*next)->field,
                   "and '" + found->field + "' exclude each other: an answer has one form");
    }
    if (*next) found = *std::move(next);
    return Status::Ok();
  };
  PENSTOCK_RETURN_IF_ERROR(take(ReadResponseFormat(object)));
  PENSTOCK_RETURN_IF_ERROR(take(ReadStructuredOutputs(object)));
  PENSTOCK_RETURN_IF_ERROR(take(ReadSchema(object, "guided_json", "guided_json")));
  PENSTOCK_RETURN_IF_ERROR(take(ReadSchema(object, "json_schema", "json_schema")));
  PENSTOCK_RETURN_IF_ERROR(
      take(ReadText(object, "guided_regex", GrammarKind::kRegex, "guided_regex")));
  PENSTOCK_RETURN_IF_ERROR(take(ReadChoice(object, "guided_choice", "guided_choice")));
  PENSTOCK_RETURN_IF_ERROR(
      take(ReadText(object, "guided_grammar", GrammarKind::kRules, "guided_grammar")));
  // llama-server's clients send an empty text for none.
  std::string_view rules;
  if (!object["grammar"].Get(&rules) || !rules.empty()) {
    PENSTOCK_RETURN_IF_ERROR(take(ReadText(object, "grammar", GrammarKind::kRules, "grammar")));
  }
  return found;
}

}  // namespace penstock::dialects
