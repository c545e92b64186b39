#include "reply/tool_set.h"

#include <algorithm>
#include <cstdint>

#include "json/schema_types.h"
#include "reply/json_scanner.h"

namespace penstock::reply {
namespace {

bool EqualsWord(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(), [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a | 0x20) : a) == b;
  });
}

// Whether `text`, trimmed, is JSON that is a number, an array or an object of `types`. Numbers of
// any size are: what reads the arguments may know larger ones than we do.
bool IsJsonOf(std::string_view text, unsigned types) {
  if (text.empty()) return false;
  const bool number = text[0] == '-' || (text[0] >= '0' && text[0] <= '9');
  if (number) {
    const bool integral = text.find_first_of(".eE") == std::string_view::npos;
    if ((types & kSchemaNumber) == 0 && ((types & kSchemaInteger) == 0 || !integral)) return false;
  } else if (!(text[0] == '{' && (types & kSchemaObject) != 0) &&
             !(text[0] == '[' && (types & kSchemaArray) != 0)) {
    return false;
  }
  JsonScanner scanner(SIZE_MAX);
  JsonScanner::Result result = JsonScanner::Result::kMore;
  for (size_t i = 0; i < text.size(); ++i) {
    if (result != JsonScanner::Result::kMore) return false;
    result = scanner.Next(text[i]);
  }
  // What follows a number ends it.
  if (number)
    return result == JsonScanner::Result::kMore &&
           scanner.Next(' ') == JsonScanner::Result::kDoneBefore;
  return result == JsonScanner::Result::kDone;
}

}  // namespace

const ReplyTool* ToolSet::Find(std::string_view name) const {
  for (const ReplyTool& tool : tools_) {
    if (tool.name == name) return &tool;
  }
  return nullptr;
}

TypedParameters::TypedParameters(const ReplyTool& tool) {
  if (tool.parameters.empty()) return;
  auto schema = JsonDocument::Parse(tool.parameters);
  if (schema.ok()) schema_ = *std::move(schema);
}

unsigned TypedParameters::TypesOf(std::string_view key) const {
  JsonObject root, properties;
  if (!schema_ || !schema_->root().Get(&root) || !root["properties"].Get(&properties)) return 0;
  return AdmittedTypes(root, properties[key]);
}

bool TypedParameters::IsText(std::string_view key) const { return TypesOf(key) == kSchemaString; }

std::string TypedParameters::Json(std::string_view key, std::string_view text) const {
  const unsigned told = TypesOf(key);
  const unsigned types = told != 0 ? told : kSchemaObject | kSchemaArray | kSchemaString;
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos) {
    const std::string_view bare = text.substr(first, text.find_last_not_of(" \t\r\n") + 1 - first);
    if ((types & kSchemaNull) != 0 && (bare == "null" || bare == "None")) return "null";
    if ((types & kSchemaBoolean) != 0 && EqualsWord(bare, "true")) return "true";
    if ((types & kSchemaBoolean) != 0 && EqualsWord(bare, "false")) return "false";
    constexpr unsigned kParsed = kSchemaInteger | kSchemaNumber | kSchemaObject | kSchemaArray;
    if ((types & kParsed) != 0 && IsJsonOf(bare, types & kParsed)) return std::string(bare);
  }
  std::string json;
  AppendJsonString(text, &json);
  return json;
}

}  // namespace penstock::reply
