// How a model writes calls, for grammars that have it write some.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reply/reply_format.h"

namespace penstock::reply {

// A reply of calls: begin, calls with `separator` between them, end. A call: before_name, the tool's
// name, in the form of JSON strings unless `names_are_bare`, before_arguments, the arguments, after.
// ReplyParser reads each.
struct CallMarkup {
  std::string begin, end;
  std::string before_name, before_arguments, after;
  std::string separator;
  bool names_are_bare = false;
  bool has_parameters = false;  // the arguments are not JSON, but parameters in tags (kQwenCoder)
  // What a call in a text begins with, or has before it. `names_trigger`: at the begin of a line, its
  // begin up to the end of a function's name.
  std::vector<std::string> triggers;
  bool names_trigger = false;
};

// Whether ReplyParser reads a call of a function of that name in this form.
bool TakesCallName(const ReplyFormat& format, std::string_view name);

// nullopt: calls are not recognised.
std::optional<CallMarkup> CallMarkupOf(const ReplyFormat& format);

}  // namespace penstock::reply
