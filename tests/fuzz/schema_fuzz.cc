// What an answer is to hold to: a byte for the kind, the schema, pattern or rules, NUL, and bytes by
// which a text is drawn from what the grammar allows. Calls are read back, and must be some.
#include <algorithm>
#include <functional>
#include <regex>
#include <string>
#include <vector>

#include "fuzz_util.h"
#include "grammar/grammar_compiler.h"
#include "json/json.h"
#include "reply/call_markup.h"
#include "reply/reply_parser.h"

namespace penstock {
namespace {

constexpr int32_t kEnd = 256;

std::unique_ptr<grammar::GrammarCompiler> NewCompiler() {
  auto tokens = std::make_shared<grammar::GrammarVocabulary>();
  for (int byte = 0; byte < 256; ++byte) tokens->tokens.emplace_back(1, static_cast<char>(byte));
  tokens->tokens.emplace_back();
  tokens->ends = {kEnd};
  auto made = grammar::MakeGrammarCompiler(std::move(tokens));
  return made.ok() ? *std::move(made) : nullptr;
}

// A call of the function f whose arguments hold to the spec's text.
void SetCall(reply::ToolForm form, grammar::GrammarSpec* spec) {
  reply::ReplyFormat format;
  format.tools = form;
  const auto markup = reply::CallMarkupOf(format);
  spec->calls.ways = {{"f", std::exchange(spec->text, {})}};
  spec->calls.before_name = markup->before_name;
  spec->calls.before_arguments = markup->before_arguments;
  spec->calls.after = markup->after;
  spec->calls.several = false;
  spec->calls.loose = true;
  if (markup->has_parameters) spec->calls.form = grammar::CallForm::kParameters;
}

// One of the allowed tokens, by `choice`: the end is preferred.
int32_t Pick(const std::vector<uint32_t>& mask, uint8_t choice) {
  if (grammar::Allows(mask, kEnd) && choice % 2 == 0) return kEnd;
  for (int i = 0; i < 257; ++i) {
    const int32_t id = (choice + i) % 257;
    if (grammar::Allows(mask, id)) return id;
  }
  return -1;
}

// Numbers past the range of a double and values nested deeper than our parser goes are JSON all the
// same.
bool IsJson(const std::string& text) {
  const auto document = JsonDocument::Parse(text);
  if (document.ok()) return true;
  static const std::regex number("[eE][+-]?[0-9]{3}|[0-9]{300}", std::regex::optimize);
  return document.status().message().find("nested deeper") != std::string::npos ||
         std::regex_search(text, number);
}

// The one call of a text by its grammar.
void CheckCall(const std::string& text, const std::string& schema, reply::ToolForm form) {
  reply::ReplyOptions options;
  options.format.tools = form;
  options.tools =
      std::make_shared<const reply::ToolSet>(std::vector<reply::ReplyTool>{{"f", schema}});
  options.limits.call.json_depth_max = SIZE_MAX;
  options.limits.call.name_bytes_max = SIZE_MAX;
  reply::ReplyParser parser(options);
  std::vector<reply::ReplyDelta> deltas;
  parser.Add(text, &deltas);
  parser.Finish(&deltas);
  PENSTOCK_CHECK(parser.calls() == 1);
  for (const reply::ReplyDelta& delta : deltas) {
    PENSTOCK_CHECK(delta.kind != reply::ReplyDelta::Kind::kContent);
    if (delta.kind == reply::ReplyDelta::Kind::kCallArguments) PENSTOCK_CHECK(IsJson(delta.text));
  }
}

// False: the grammar is too ambiguous to go on.
bool Accepts(grammar::Constraint* constraint, int32_t id) {
  const Status status = constraint->Accept(id);
  PENSTOCK_CHECK(status.ok() || status.code() == StatusCode::kUnprocessable);
  return status.ok();
}

void Draw(const grammar::Grammar& grammar, std::string_view choices,
          const std::function<void(const std::string&)>& check) {
  const auto constraint = grammar.Begin();
  if (!constraint.ok()) return;
  std::vector<uint32_t> mask(grammar::MaskWords(257));
  std::string text;
  for (const char choice : choices) {
    // Broken grammars may lead to where nothing can follow: an error, and no text.
    if (!(*constraint)->Mask(mask).ok()) return;
    const int32_t id = Pick(mask, static_cast<uint8_t>(choice));
    PENSTOCK_CHECK(id >= 0);
    if (id == kEnd) {
      check(text);
      return;
    }
    (void)(*constraint)->Forced();
    if (!Accepts(constraint->get(), id)) return;
    if (choice % 16 == 3) {
      (*constraint)->RollBack(1);
      if (!Accepts(constraint->get(), id)) return;
    }
    text += static_cast<char>(id);
  }
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  static const auto compiler = NewCompiler();
  fuzz::Input input(data, size);
  const uint8_t how = input.Byte();
  const auto kind = static_cast<grammar::GrammarKind>(how % 6);
  grammar::GrammarSpec spec{kind, std::string(input.Part()), {}, "field"};
  const std::string text = spec.text;
  const auto form = how < 6 ? reply::ToolForm::kQwenCoder : reply::ToolForm::kHermes;
  if (kind == grammar::GrammarKind::kCalls) SetCall(form, &spec);
  if (kind == grammar::GrammarKind::kChoice) spec.choices = {spec.text, "b"};
  const Status checked = grammar::CheckSpec(spec);
  PENSTOCK_CHECK(checked.ok() || checked.field() == "field");
  if (!checked.ok() || compiler == nullptr) return 0;
  const auto made = compiler->Compile(spec);
  PENSTOCK_CHECK(made.ok() || made.code() == StatusCode::kInvalidArgument);
  if (!made.ok()) return 0;
  Draw(**made, input.Part(), [&](const std::string& drawn) {
    if (kind == grammar::GrammarKind::kCalls) CheckCall(drawn, text, form);
    if (kind == grammar::GrammarKind::kJson || kind == grammar::GrammarKind::kJsonSchema) {
      PENSTOCK_CHECK(IsJson(drawn));
    }
  });
  return 0;
}

PENSTOCK_FUZZ_MUTATE_WITH(penstock::fuzz::MutateText)
