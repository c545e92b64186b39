#include "api/call_grammar.h"

#include <fmt/format.h>

#include "common/json_writer.h"
#include "grammar/schema_check.h"
#include "reply/call_markup.h"

namespace penstock::api {
namespace {

constexpr const char* kAnyObject = R"({"type":"object","additionalProperties":true})";

Status NoGrammar(const TextRequest& request, CallUse use, const std::string& model) {
  if (use == CallUse::kRequired) {
    return Status::InvalidArgument(
        fmt::format("model '{}' writes calls in a form that cannot be enforced: 'tool_choice' can "
                    "be \"auto\" or \"none\"",
                    model),
        "tool_choice");
  }
  return Status::InvalidArgument(
      fmt::format("model '{}' writes calls in a form that cannot be enforced, so '{}' is not "
                  "supported beside 'tools'",
                  model, request.grammar->field),
      "tools");
}

std::string SchemaOf(const reply::ReplyTool& tool, const grammar::GrammarSpec& spec, CallUse use) {
  if (use != CallUse::kInText || tool.parameters.empty()) return tool.parameters;
  const bool known = grammar::CheckCallSchema(tool.parameters, spec.calls.form, spec.field).ok();
  return known ? tool.parameters : kAnyObject;
}

}  // namespace

Expected<grammar::GrammarSpec> CallGrammar(const TextRequest& request,
                                           const reply::ReplyFormat& format, CallUse use,
                                           const std::string& model) {
  grammar::GrammarSpec spec;
  spec.kind = grammar::GrammarKind::kCalls;
  spec.field = "tools";
  const auto markup = reply::CallMarkupOf(format);
  if (!markup) {
    if (use == CallUse::kInText) return spec;
    return NoGrammar(request, use, model);
  }
  if (use == CallUse::kOrAnswer) {
    spec.calls.otherwise = request.grammar->kind == grammar::GrammarKind::kJsonSchema
                               ? request.grammar->text
                               : kAnyObject;
    spec.field += "', '" + request.grammar->field;
  }
  spec.calls.form =
      markup->has_parameters ? grammar::CallForm::kParameters : grammar::CallForm::kJson;
  spec.calls.before_name = markup->before_name;
  spec.calls.before_arguments = markup->before_arguments;
  spec.calls.after = markup->after;
  // A model that calls by itself writes as it likes.
  spec.calls.loose = use == CallUse::kInText;
  spec.calls.begin = markup->begin;
  spec.calls.end = markup->end;
  spec.calls.separator = markup->separator;
  spec.calls.several = request.parallel_calls && request.required_tool.empty();
  // Where nothing stands around all calls, each one in a text is held by itself.
  if (use == CallUse::kInText && markup->end.empty()) spec.calls.several = false;
  for (const reply::ReplyTool& tool : request.tools->tools()) {
    if (!request.required_tool.empty() && tool.name != request.required_tool) continue;
    std::string name = tool.name;
    if (!markup->names_are_bare) {
      name.clear();
      JsonWriter(&name).String(tool.name);
      name = name.substr(1, name.size() - 2);
    } else if (name.find_first_of("<>[]\r\n") != std::string::npos) {
      if (use == CallUse::kInText) return grammar::GrammarSpec{.field = "tools"};
      return Status::InvalidArgument(
          fmt::format("a function named '{}' cannot be called by model '{}', which marks the ends "
                      "of names by brackets",
                      name.substr(0, 80), model),
          "tools");
    }
    spec.calls.ways.push_back({std::move(name), SchemaOf(tool, spec, use)});
  }
  if (spec.calls.ways.empty() && use != CallUse::kInText) {
    return Status::InvalidArgument(
        fmt::format("'tool_choice' names '{}', which is not among the tools",
                    request.required_tool.substr(0, 80)),
        "tool_choice");
  }
  return spec;
}

}  // namespace penstock::api
