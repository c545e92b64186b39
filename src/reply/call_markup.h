// How a model writes calls whose arguments are JSON, for grammars that have it write some.
#pragma once

#include <optional>
#include <string>

#include "reply/reply_format.h"

namespace penstock::reply {

// A reply of calls: begin, calls with `separator` between them, end. A call: before_name, the tool's
// name in a JSON string, before_arguments, the arguments, after. ReplyParser reads each.
struct CallMarkup {
  std::string begin, end;
  std::string before_name, before_arguments, after;
  std::string separator;
};

// nullopt: calls are not recognised, or their arguments are not JSON (kQwenCoder).
std::optional<CallMarkup> CallMarkupOf(const ReplyFormat& format);

}  // namespace penstock::reply
