#include "reply/call_markup.h"

#include <algorithm>

#include "reply/call_json.h"

namespace penstock::reply {

bool TakesCallName(const ReplyFormat& format, std::string_view name) {
  if (name.size() > CallLimits().name_bytes_max) return false;
  switch (format.tools) {
    case ToolForm::kQwenCoder:
      return name.find_first_of("<>\n") == std::string_view::npos;
    case ToolForm::kMistralNames:
      return std::all_of(name.begin(), name.end(), CallNamed::IsNameByte);
    case ToolForm::kNone:
    case ToolForm::kHermes:
    case ToolForm::kLlama:
    case ToolForm::kMistral:
      break;
  }
  return true;
}

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
      markup.triggers = {"<tool_call>"};
      return markup;
    case ToolForm::kLlama:
      markup.before_arguments = "\", \"parameters\": ";
      markup.separator = "; ";
      markup.triggers = {"<|python_tag|>"};
      markup.names_trigger = true;
      return markup;
    case ToolForm::kMistral:
      markup.begin = "[TOOL_CALLS][";
      markup.separator = ", ";
      markup.end = "]";
      markup.triggers = {"[TOOL_CALLS]"};
      return markup;
    case ToolForm::kMistralNames:
      markup.before_name = "[TOOL_CALLS]";
      markup.before_arguments = "[ARGS]";
      markup.after = "";
      markup.names_are_bare = true;
      markup.triggers = {"[TOOL_CALLS]"};
      return markup;
    case ToolForm::kQwenCoder:
      markup.before_name = "<tool_call>\n<function=";
      markup.before_arguments = ">\n";
      markup.after = "</function>\n</tool_call>";
      markup.separator = "\n";
      markup.names_are_bare = markup.has_parameters = true;
      markup.triggers = {"<tool_call>"};
      return markup;
    case ToolForm::kNone:
      break;
  }
  return std::nullopt;
}

}  // namespace penstock::reply
