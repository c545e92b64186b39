#include "grammar/grammar_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "base/utf8_check.h"
#include "grammar/call_parameters.h"
#include "grammar/pattern_size.h"
#include "grammar/schema_check.h"
#include "json/json.h"
#include "json/schema_types.h"

namespace penstock::grammar {
namespace {

Status Wrong(const GrammarSpec& spec, const std::string& what) {
  return Status::InvalidArgument("'" + spec.field + "' " + what, spec.field);
}

Status CheckChoices(const GrammarSpec& spec) {
  if (spec.choices.empty()) return Wrong(spec, "has no choice");
  if (spec.choices.size() > kChoicesMax) {
    return Wrong(spec, fmt::format("has {} choices; at most {} are taken", spec.choices.size(),
                                   kChoicesMax));
  }
  for (const std::string& choice : spec.choices) {
    if (choice.empty()) return Wrong(spec, "has an empty choice");
    if (!IsValidUtf8(choice)) return Wrong(spec, "has a choice that is not UTF-8");
  }
  return Status::Ok();
}

Status CheckPattern(const GrammarSpec& spec) {
  if (spec.text.empty()) return Wrong(spec, "is empty");
  if (spec.text.size() > kRegexBytesMax) {
    return Wrong(spec, fmt::format("is a pattern of {} bytes; at most {} are taken",
                                   spec.text.size(), kRegexBytesMax));
  }
  const Status size = CheckPatternSize(spec.text, PatternKind::kRegex);
  return size.ok() ? size : Wrong(spec, size.message());
}

// Whether rules have an escape (\x of any length, \u, \U) of no code point: the library's parser
// adds its digits up unchecked.
bool HasLargeEscape(std::string_view rules) {
  for (size_t i = 0; i + 1 < rules.size(); ++i) {
    if (rules[i] != '\\') continue;
    const char kind = rules[++i];
    if (kind != 'x' && kind != 'u' && kind != 'U') continue;
    const size_t end =
        std::min(rules.find_first_not_of("0123456789abcdefABCDEF", i + 1), rules.size());
    const size_t most = kind == 'x' ? end : std::min(end, i + 1 + (kind == 'u' ? 4 : 8));
    uint32_t point = 0;
    const auto [stop, error] =
        std::from_chars(rules.data() + i + 1, rules.data() + most, point, 16);
    if (error == std::errc::result_out_of_range || point > 0x10FFFF) return true;
  }
  return false;
}

Status CheckCalls(const GrammarSpec& spec) {
  if (spec.calls.ways.empty()) return Wrong(spec, "has no function");
  if (spec.calls.ways.size() > kWaysMax) {
    return Wrong(spec, fmt::format("has {} functions; at most {} are taken", spec.calls.ways.size(),
                                   kWaysMax));
  }
  for (const CallSpec::Way& way : spec.calls.ways) {
    PENSTOCK_RETURN_IF_ERROR(CheckCallSchema(way.schema, spec.calls.form, spec.field));
  }
  if (spec.calls.otherwise.empty()) return Status::Ok();
  return CheckSchema(spec.calls.otherwise, spec.calls.otherwise_field);
}

}  // namespace

size_t GrammarSpec::bytes() const {
  size_t bytes = text.size() + calls.otherwise.size();
  for (const std::string& choice : choices) bytes += choice.size();
  for (const CallSpec::Way& way : calls.ways) bytes += way.name.size() + way.schema.size();
  return bytes;
}

std::string GrammarSpec::Key() const {
  std::string key = fmt::format("{}:{}:{}", static_cast<int>(kind), text.size(), text);
  const auto add = [&key](const std::string& part) {
    key += fmt::format("{}:{}", part.size(), part);
  };
  for (const std::string& choice : choices) add(choice);
  if (calls.ways.empty()) return key;
  for (const CallSpec::Way& way : calls.ways) {
    add(way.name);
    add(way.schema);
  }
  for (const std::string* part : {&calls.before_name, &calls.before_arguments, &calls.after,
                                  &calls.begin, &calls.end, &calls.separator, &calls.otherwise}) {
    add(*part);
  }
  return key + (calls.several ? "+" : "") + (calls.form == CallForm::kParameters ? "<" : "") +
         (calls.loose ? " " : "") + (calls.any_if_faulty ? "?" : "");
}

Status CheckSpec(const GrammarSpec& spec) {
  if (spec.bytes() > kSpecBytesMax) {
    return Wrong(spec,
                 fmt::format("has {} bytes; at most {} are taken", spec.bytes(), kSpecBytesMax));
  }
  switch (spec.kind) {
    case GrammarKind::kJson:
      return Status::Ok();
    case GrammarKind::kJsonSchema:
      return CheckSchema(spec.text, spec.field);
    case GrammarKind::kChoice:
      return CheckChoices(spec);
    case GrammarKind::kRegex:
      return CheckPattern(spec);
    case GrammarKind::kCalls:
      return CheckCalls(spec);
    case GrammarKind::kRules: {
      if (spec.text.empty()) return Wrong(spec, "is empty");
      if (HasLargeEscape(spec.text)) return Wrong(spec, "has an escape above \\U0010FFFF");
      const Status size = CheckPatternSize(spec.text, PatternKind::kRules);
      return size.ok() ? size : Wrong(spec, size.message());
    }
  }
  return Wrong(spec, "is of no known kind");
}

// Arguments are an object, whatever else a schema, which has passed CheckSchema, may describe.
Status CheckDescribesObject(std::string_view schema, const std::string& field) {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(schema));
  JsonObject root;
  if (document.root().Get(&root) && AdmittedTypes(root, document.root()) == kSchemaObject) {
    return Status::Ok();
  }
  return Status::InvalidArgument(
      fmt::format("'{}': the schema of a function's arguments must have the type \"object\"",
                  field),
      field);
}

Status CheckCallSchema(std::string_view schema, CallForm form, const std::string& field) {
  if (schema.empty()) return Status::Ok();
  PENSTOCK_RETURN_IF_ERROR(CheckSchema(schema, field));
  PENSTOCK_RETURN_IF_ERROR(CheckDescribesObject(schema, field));
  if (form == CallForm::kJson) return Status::Ok();
  return ReadCallParameters(schema, field).status();
}

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\u{:04x}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string ChoiceRules(const std::vector<std::string>& choices) {
  std::string rules = "root ::= ";
  for (size_t i = 0; i < choices.size(); ++i) {
    rules += (i > 0 ? " | " : "") + Quoted(choices[i]);
  }
  return rules + "\n";
}

}  // namespace penstock::grammar
