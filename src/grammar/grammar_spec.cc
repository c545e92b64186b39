#include "grammar/grammar_spec.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/utf8_check.h"
#include "grammar/pattern_size.h"
#include "grammar/schema_check.h"

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

}  // namespace

size_t GrammarSpec::bytes() const {
  size_t bytes = text.size();
  for (const std::string& choice : choices) bytes += choice.size();
  return bytes;
}

std::string GrammarSpec::Key() const {
  std::string key = fmt::format("{}:{}:{}", static_cast<int>(kind), text.size(), text);
  for (const std::string& choice : choices) key += fmt::format("{}:{}", choice.size(), choice);
  return key;
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
    case GrammarKind::kRules: {
      if (spec.text.empty()) return Wrong(spec, "is empty");
      const Status size = CheckPatternSize(spec.text, PatternKind::kRules);
      return size.ok() ? size : Wrong(spec, size.message());
    }
  }
  return Wrong(spec, "is of no known kind");
}

std::string ChoiceRules(const std::vector<std::string>& choices) {
  std::string rules = "root ::= ";
  for (size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) rules += " | ";
    rules += '"';
    for (const char c : choices[i]) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        rules += '\\';
        rules += c;
      } else if (byte < 0x20 || byte == 0x7f) {
        rules += fmt::format("\\x{:02x}", byte);
      } else {
        rules += c;
      }
    }
    rules += '"';
  }
  return rules + "\n";
}

}  // namespace penstock::grammar
