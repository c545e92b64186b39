#include "reply/call_markup.h"

namespace penstock::reply {

std::optional<CallMarkup> CallMarkupOf(const ReplyFormat& format) {
  CallMarkup markup;
  markup.before_name = "{\"name\": \"";
  markup.before_arguments = "\", \"arguments\": ";
  markup.after = "}";
  switch (format.tools) {
    case ToolForm::kHermes:
      markup.before_name = "<tool_call>\n" + markup.before_name;
      markup.after = "}\n</tool_call>";
      markup.separator = "\n";
      return markup;
    case ToolForm::kLlama:
      markup.before_arguments = "\", \"parameters\": ";
      markup.separator = "; ";
      return markup;
    case ToolForm::kMistral:
      markup.begin = "[TOOL_CALLS][";
      markup.separator = ", ";
      markup.end = "]";
      return markup;
    case ToolForm::kNone:
    case ToolForm::kQwenCoder:
      break;
  }
  return std::nullopt;
}

}  // namespace penstock::reply
