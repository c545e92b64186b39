#include "api/call_grammar.h"

#include <fmt/format.h>

#include "grammar/schema_check.h"
#include "json/json_writer.h"
#include "reply/call_markup.h"

namespace penstock::api {
namespace {

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
  if (tool.parameters == "{}") return grammar::kAnyObjectSchema;
  if (use != CallUse::kInText || tool.parameters.empty()) return tool.parameters;
  const bool known = grammar::CheckCallSchema(tool.parameters, spec.calls.form, spec.field).ok();
  return known ? tool.parameters : grammar::kAnyObjectSchema;
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
  size_t bytes = 0;
  for (const reply::ReplyTool& tool : request.tools->tools()) bytes += tool.parameters.size();
  if (bytes > grammar::kSpecBytesMax) {
    if (use == CallUse::kInText) return spec;
    return Status::InvalidArgument(
        fmt::format("'tools' have schemas of {} bytes; at most {} are enforced", bytes,
                    grammar::kSpecBytesMax),
        "tools");
  }
  if (use == CallUse::kOrAnswer) {
    spec.calls.otherwise = request.grammar->kind == grammar::GrammarKind::kJsonSchema
                               ? request.grammar->text
                               : grammar::kAnyObjectSchema;
    spec.calls.otherwise_field = request.grammar->field;
  }
  spec.calls.form =
      markup->has_parameters ? grammar::CallForm::kParameters : grammar::CallForm::kJson;
  spec.calls.before_name = markup->before_name;
  spec.calls.before_arguments = markup->before_arguments;
  spec.calls.after = markup->after;
  // A model that calls by itself writes as it likes.
  spec.calls.loose = spec.calls.any_if_faulty = use == CallUse::kInText;
  spec.calls.begin = markup->begin;
  spec.calls.end = markup->end;
  spec.calls.separator = markup->separator;
  spec.calls.several = request.parallel_calls && request.required_tool.empty();
  // Where nothing stands around all calls, each one in a text is held by itself.
  if (use == CallUse::kInText && markup->end.empty()) spec.calls.several = false;
  for (const reply::ReplyTool& tool : request.tools->tools()) {
    if (!request.required_tool.empty() && tool.name != request.required_tool) continue;
    std::string name = tool.name;
    if (!reply::TakesCallName(format, name)) {
      if (use == CallUse::kInText) continue;
      return Status::InvalidArgument(
          fmt::format("a function named '{}' cannot be called in the form in which model '{}' "
                      "writes calls",
                      name.substr(0, 80), model),
          "tools");
    }
    if (!markup->names_are_bare) {
      name.clear();
      JsonWriter(&name).String(tool.name);
      name = name.substr(1, name.size() - 2);
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

std::vector<std::string> CallBegins(const grammar::CallSpec& calls) {
  std::string bare = calls.before_name;
  std::erase_if(bare, [](char c) { return c == ' ' || c == '\n'; });
  std::vector<std::string> begins;
  for (const grammar::CallSpec::Way& way : calls.ways) {
    begins.push_back(calls.before_name + way.name + '"');
    begins.push_back(bare + way.name + '"');
  }
  return begins;
}

}  // namespace penstock::api
