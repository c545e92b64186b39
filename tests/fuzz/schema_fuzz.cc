// What an answer is to hold to: a byte for the kind, the schema, pattern or rules, NUL, and bytes by
// which a text is drawn from what the grammar allows.
#include <algorithm>
#include <regex>
#include <string>
#include <vector>

#include "common/json.h"
#include "fuzz_util.h"
#include "grammar/grammar_compiler.h"

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

void Draw(const grammar::Grammar& grammar, bool is_json, std::string_view choices) {
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
      PENSTOCK_CHECK(!is_json || IsJson(text));
      return;
    }
    (void)(*constraint)->Forced();
    PENSTOCK_CHECK((*constraint)->Accept(id).ok());
    if (choice % 16 == 3) {
      (*constraint)->RollBack(1);
      PENSTOCK_CHECK((*constraint)->Accept(id).ok());
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
  const auto kind = static_cast<grammar::GrammarKind>(input.Byte() % 5);
  grammar::GrammarSpec spec{kind, std::string(input.Part()), {}, "field"};
  if (kind == grammar::GrammarKind::kChoice) spec.choices = {spec.text, "b"};
  const Status checked = grammar::CheckSpec(spec);
  PENSTOCK_CHECK(checked.ok() || checked.field() == "field");
  if (!checked.ok() || compiler == nullptr) return 0;
  const auto made = compiler->Compile(spec);
  PENSTOCK_CHECK(made.ok() || made.code() == StatusCode::kInvalidArgument);
  if (!made.ok()) return 0;
  const bool is_json =
      kind == grammar::GrammarKind::kJson || kind == grammar::GrammarKind::kJsonSchema;
  Draw(**made, is_json, input.Part());
  return 0;
}

PENSTOCK_FUZZ_MUTATE_WITH(penstock::fuzz::MutateText)
