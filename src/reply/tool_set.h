// The tools a request offers to the model: their names, and the types of their parameters, which
// turn the plain text of the Qwen3-Coder form into JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "json/json.h"

namespace penstock::reply {

struct ReplyTool {
  std::string name;
  std::string parameters;  // JSON schema, as the request has it; empty: not told
};

// Unchanged after it is made; any thread.
class ToolSet {
 public:
  explicit ToolSet(std::vector<ReplyTool> tools) : tools_(std::move(tools)) {}

  bool empty() const { return tools_.empty(); }
  const std::vector<ReplyTool>& tools() const { return tools_; }
  // nullptr: there is none of that name.
  const ReplyTool* Find(std::string_view name) const;

 private:
  std::vector<ReplyTool> tools_;
};

// Turns what a model wrote for the parameters of one call into JSON, always valid. By the types the
// tool's schema admits for the parameter (json/schema_types.h):
//   null               the text null, or None as Python writes it
//   boolean            true or false, however capitalised
//   integer, number    a JSON number; an integer has no point and no exponent
//   object, array      JSON of that kind
//   string, and else   the text itself
// tried in this order, whitespace around the text left out but for strings. Where the schema says
// nothing of the parameter, an object or an array is taken as such, else the text is a string.
class TypedParameters {
 public:
  explicit TypedParameters(const ReplyTool& tool);
  std::string Json(std::string_view key, std::string_view text) const;
  // The schema admits strings only, so that Json() is the quoted text whatever it is.
  bool IsText(std::string_view key) const;

 private:
  unsigned TypesOf(std::string_view key) const;

  std::optional<JsonDocument> schema_;  // nullopt: not given, or not JSON
};

}  // namespace penstock::reply
