// GrammarCompiler by XGrammar. The only file that includes it.
#ifdef PENSTOCK_HAVE_XGRAMMAR
#include <fmt/format.h>
#include <xgrammar/compiler.h>
#include <xgrammar/matcher.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <ctime>
#include <functional>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>

#include "base/printable.h"
#include "grammar/call_parameters.h"
#include "grammar/follow_budget.h"
#include "grammar/grammar_compiler.h"
#include "grammar/regex_rules.h"
#include "grammar/schema_rules.h"
#include "log/exception_status.h"
#include "log/log.h"

namespace xgrammar {

// What XGrammar warns of on this thread: while it compiles, a part of the schema or of the pattern
// that it would leave out.
thread_local std::string* warnings = nullptr;

[[noreturn]] void LogFatalImpl(const std::string&, int, const std::string& message) {
  throw std::runtime_error(message);
}

void LogMessageImpl(const std::string&, int, int, const std::string& message) {
  if (warnings != nullptr && warnings->empty()) *warnings = message;
}

}  // namespace xgrammar

namespace penstock::grammar {
namespace {

constexpr size_t kMessageBytesMax = 400;

// Collects warnings for as long as it lives.
class Warnings {
 public:
  Warnings() : others_(std::exchange(xgrammar::warnings, &first_)) {}
  ~Warnings() { xgrammar::warnings = others_; }
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;
  const std::string& first() const { return first_; }

 private:
  std::string first_;
  std::string* const others_;  // that collected them before
};

class XConstraint final : public Constraint {
 public:
  XConstraint(const xgrammar::CompiledGrammar& grammar,
              std::shared_ptr<const GrammarVocabulary> vocabulary)
      : matcher_(grammar), vocabulary_(std::move(vocabulary)) {}

  Status Mask(std::span<uint32_t> allowed) override {
    const FollowBudget::Scope scope(&budget_, FollowBudget::kMaskSeconds);
    try {
      int64_t shape[] = {static_cast<int64_t>(allowed.size())};
      DLTensor tensor{};
      tensor.data = allowed.data();
      tensor.device = {kDLCPU, 0};
      tensor.ndim = 1;
      tensor.dtype = xgrammar::GetBitmaskDLType();
      tensor.shape = shape;
      if (!matcher_.FillNextTokenBitmask(&tensor)) {
        std::fill(allowed.begin(), allowed.end(), ~uint32_t{0});
      }
    } catch (...) {
      return ExceptionStatus();
    }
    const bool any = std::any_of(allowed.begin(), allowed.end(), [](uint32_t w) { return w != 0; });
    return any ? Status::Ok() : Status::Internal("no token goes on with the text by its grammar");
  }

  Status Accept(int32_t id) override {
    return Follow([&] { return matcher_.AcceptToken(id); });
  }

  Status AcceptText(std::string_view text) override {
    if (text.empty()) return Status::Ok();
    return Follow([&] { return matcher_.AcceptString(std::string(text)); });
  }

  void RollBack(int32_t tokens) override { matcher_.Rollback(tokens); }

  // Byte by byte, for as long as all tokens that may come begin alike: the library's own way has no
  // end where a rule has none.
  std::string Forced() override {
    const FollowBudget::Stopwatch watch;
    const FollowBudget::Tokens tokens(&budget_);
    std::string text;
    try {
      allowed_.resize(MaskWords(vocabulary_->tokens.size()));
      text.reserve(kForcedBytesMax);
      while (text.size() < kForcedBytesMax && watch.seconds() < kForcedSeconds) {
        if (!Mask(allowed_).ok()) break;
        const int byte = OnlyByte(allowed_);
        if (byte < 0 || !AcceptText(std::string(1, static_cast<char>(byte))).ok()) break;
        text += static_cast<char>(byte);
      }
    } catch (const std::bad_alloc&) {
      // What was found so far.
    }
    RollBack(static_cast<int32_t>(text.size()));
    return text;
  }

 private:
  static constexpr size_t kForcedBytesMax = 256;
  static constexpr double kForcedSeconds = 5e-3;

  // What all tokens of a set begin with; -1: with several bytes, or the text may end.
  int OnlyByte(std::span<const uint32_t> allowed) const {
    int only = -1;
    for (size_t word = 0; word < allowed.size(); ++word) {
      for (uint32_t bits = allowed[word]; bits != 0; bits &= bits - 1) {
        const size_t id = 32 * word + static_cast<size_t>(std::countr_zero(bits));
        if (id >= vocabulary_->tokens.size()) break;
        const std::string& token = vocabulary_->tokens[id];
        if (token.empty()) return -1;
        const int first = static_cast<unsigned char>(token[0]);
        if (only >= 0 && first != only) return -1;
        only = first;
      }
    }
    return only;
  }

  template <typename Take>
  Status Follow(Take&& take) {
    if (budget_.over()) {
      return {StatusCode::kUnprocessable,
              "the text's grammar is too ambiguous to be followed so far: it takes more time with "
              "every token"};
    }
    const FollowBudget::Scope scope(&budget_);
    try {
      if (take()) {
        budget_.CountToken();
        return Status::Ok();
      }
    } catch (...) {
      return ExceptionStatus();
    }
    return Status::Internal("what comes next is not allowed by the grammar of the text");
  }

  xgrammar::GrammarMatcher matcher_;
  const std::shared_ptr<const GrammarVocabulary> vocabulary_;
  FollowBudget budget_;
  std::vector<uint32_t> allowed_;  // of Forced
};

class XGrammar final : public Grammar {
 public:
  XGrammar(xgrammar::CompiledGrammar compiled, std::shared_ptr<const GrammarVocabulary> vocabulary,
           bool has_spaces)
      : compiled_(std::move(compiled)),
        vocabulary_(std::move(vocabulary)),
        has_spaces_(has_spaces) {}

  Expected<std::unique_ptr<Constraint>> Begin() const override {
    try {
      return std::unique_ptr<Constraint>(std::make_unique<XConstraint>(compiled_, vocabulary_));
    } catch (...) {
      return ExceptionStatus();
    }
  }
  const GrammarVocabulary& vocabulary() const override { return *vocabulary_; }
  bool has_spaces() const override { return has_spaces_; }
  size_t bytes() const override { return compiled_.MemorySizeBytes(); }

 private:
  const xgrammar::CompiledGrammar compiled_;
  const std::shared_ptr<const GrammarVocabulary> vocabulary_;
  const bool has_spaces_;
};

xgrammar::TokenizerInfo Tokens(const std::vector<std::string>& tokens,
                               const std::vector<int32_t>& ends) {
  return {tokens, xgrammar::VocabType::RAW, std::nullopt, ends};
}

std::vector<std::string> WithoutControls(std::vector<std::string> tokens) {
  for (std::string& token : tokens) {
    const bool controls = std::any_of(token.begin(), token.end(), [](char c) {
      return static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\r';
    });
    if (controls) token.clear();
  }
  return tokens;
}

class XCompiler final : public GrammarCompiler {
 public:
  explicit XCompiler(std::shared_ptr<const GrammarVocabulary> vocabulary)
      : vocabulary_(std::move(vocabulary)),
        compiler_(Tokens(vocabulary_->tokens, vocabulary_->ends), 1, /*cache_enabled=*/false),
        json_(Tokens(WithoutControls(vocabulary_->tokens), vocabulary_->ends), 1,
              /*cache_enabled=*/false) {}

  Expected<std::shared_ptr<const Grammar>> Compile(const GrammarSpec& spec) override {
    const std::lock_guard lock(mutex_);
    const Warnings warnings;
    std::string fault;
    try {
      xgrammar::CompiledGrammar compiled = CompileSpec(spec);
      if (warnings.first().empty()) {
        return std::shared_ptr<const Grammar>(
            std::make_shared<XGrammar>(std::move(compiled), vocabulary_, IsJson(spec.kind)));
      }
      fault = warnings.first();
    } catch (const std::bad_alloc&) {
      return ExceptionStatus();
    } catch (const std::exception& error) {
      fault = error.what();
    }
    return Status::InvalidArgument(fmt::format("'{}' cannot be enforced: {}", spec.field,
                                               Printable(fault).substr(0, kMessageBytesMax)),
                                   spec.field);
  }

 private:
  static bool IsJson(GrammarKind kind) {
    return kind == GrammarKind::kJson || kind == GrammarKind::kJsonSchema ||
           kind == GrammarKind::kCalls;
  }

  xgrammar::CompiledGrammar CompileSpec(const GrammarSpec& spec) {
    switch (spec.kind) {
      case GrammarKind::kJson:
        return json_.CompileGrammar(SchemaGrammar(kAnyObjectSchema, spec.field));
      case GrammarKind::kJsonSchema:
        return CompileSchema(spec);
      case GrammarKind::kRegex:
        return compiler_.CompileGrammar("root ::= " + RulesOf(spec.text, RegexText::kPlain));
      case GrammarKind::kChoice:
        return compiler_.CompileGrammar(ChoiceRules(spec.choices));
      case GrammarKind::kRules:
        return compiler_.CompileGrammar(spec.text);
      case GrammarKind::kCalls:
        return CompileCalls(spec);
    }
    throw std::runtime_error("no such kind");
  }

  static std::string RulesOf(std::string_view pattern, RegexText text) {
    auto rules = RegexRules(pattern, text);
    if (!rules.ok()) throw std::runtime_error("it " + rules.status().message());
    return *std::move(rules);
  }

  xgrammar::CompiledGrammar CompileSchema(const GrammarSpec& spec) {
    return json_.CompileGrammar(SchemaGrammar(spec.text, spec.field));
  }

  // The library's rules of a string take halves of surrogate pairs, as characters and as escapes;
  // strict parsers of JSON refuse both. A backslash of the schema's own texts is printed as two.
  // Between tags no string has a '<'.
  static std::string WithoutHalfPairs(std::string rules, RegexText text) {
    constexpr std::string_view kPlain = R"([^\0-\x1f\"\\\r\n)";
    const std::string excluded = std::string(InTag(text) ? "<" : "") + R"(\U0000D800-\U0000DFFF)";
    for (size_t at = 0; (at = rules.find(kPlain, at)) != std::string::npos;) {
      at += kPlain.size();
      rules.insert(at, excluded);
    }
    constexpr std::string_view kEscape = "basic_escape ::= ";
    const size_t begin = rules.find(kEscape);
    if (begin == std::string::npos) return rules;
    const size_t end = rules.find('\n', begin);
    return rules.replace(begin, end - begin, R"(basic_escape ::= ["\\/bfnrt] | "u" penstock_unit
penstock_hex ::= [0-9A-Fa-f]
penstock_unit ::= [0-9A-CE-Fa-ce-f] penstock_hex{3} | [Dd] [0-7] penstock_hex{2} | penstock_pair
penstock_pair ::= [Dd] [89ABab] penstock_hex{2} "\\u" [Dd] [C-Fc-f] penstock_hex{2})");
  }

  // Our rules take the places of their constants, which stand inside of texts in double quotes.
  static xgrammar::Grammar SchemaGrammar(const std::string& schema, const std::string& field,
                                         RegexText text = RegexText::kJson) {
    auto rewritten = RewriteSchema(schema, field, text);
    if (!rewritten.ok()) throw std::runtime_error(rewritten.status().message());
    std::string rules = xgrammar::Grammar::FromJSONSchema(rewritten->schema).ToString();
    // In a key or a value of a list; the classes are ours to change.
    if (InTag(text) && rules.find('<') != std::string::npos) {
      throw std::runtime_error("a value between tags cannot have a '<'");
    }
    rules = WithoutHalfPairs(std::move(rules), text);
    for (const SchemaRules::Rule& rule : rewritten->rules) {
      std::string name = rule.constant;
      std::replace(name.begin(), name.end(), '-', '_');
      // The longest number first would do as well: a quote stands behind each.
      const std::string constant = rule.constant + "\\\"";
      const std::string reference = "\" " + name + " \"\\\"";
      for (size_t at = 0; (at = rules.find(constant, at)) != std::string::npos;
           at += reference.size()) {
        rules.replace(at, constant.size(), reference);
      }
      rules += name + " ::= " + rule.expression + "\n";
    }
    return xgrammar::Grammar::FromEBNF(rules);
  }

  // All ways to call as one rule, which the text repeats.
  xgrammar::CompiledGrammar CompileCalls(const GrammarSpec& spec) {
    const bool tags = spec.calls.form == CallForm::kParameters;
    std::vector<xgrammar::Grammar> ways;
    for (const CallSpec::Way& way : spec.calls.ways) {
      const xgrammar::Grammar arguments = Arguments(spec, way);
      ways.push_back(
          xgrammar::Grammar::Concat({Around(spec.calls, spec.calls.before_name), Literal(way.name),
                                     Around(spec.calls, spec.calls.before_arguments), arguments,
                                     Around(spec.calls, spec.calls.after)}));
    }
    const std::string call =
        WithNames(xgrammar::Grammar::Union(ways).ToString(),
                  [](const std::string& name) { return name == "root" ? "penstock_call" : name; });
    std::string root = "root ::= " + Quoted(spec.calls.begin) + " penstock_call ";
    if (spec.calls.several) root += "(" + Quoted(spec.calls.separator) + " penstock_call)* ";
    xgrammar::Grammar calls =
        xgrammar::Grammar::FromEBNF(root + Quoted(spec.calls.end) + "\n" + call);
    if (!spec.calls.otherwise.empty()) {
      calls = xgrammar::Grammar::Union(
          {calls, SchemaGrammar(spec.calls.otherwise, spec.calls.otherwise_field)});
    }
    return Calls(tags).CompileGrammar(calls);
  }

  static xgrammar::Grammar Arguments(const GrammarSpec& spec, const CallSpec::Way& way) {
    const auto make = [&](const std::string& schema) {
      if (spec.calls.form == CallForm::kParameters) return TagGrammar(schema, spec.field);
      return schema.empty() ? Literal("{}") : SchemaGrammar(schema, spec.field);
    };
    if (!spec.calls.any_if_faulty) return make(way.schema);
    // A function that cannot be held to its schema keeps no other from it.
    try {
      const Warnings warnings;
      xgrammar::Grammar made = make(way.schema);
      if (warnings.first().empty()) return made;
    } catch (const std::runtime_error& error) {
      LogDebug("the calls of '{}' are not held: {}", Printable(way.name), Printable(error.what()));
    }
    return make(kAnyObjectSchema);
  }

  static xgrammar::Grammar Literal(const std::string& text) {
    return xgrammar::Grammar::FromEBNF("root ::= " + Quoted(text) + "\n");
  }

  // What stands around names and arguments. Loose: with any whitespace where it has some, or where
  // JSON may have some.
  static xgrammar::Grammar Around(const CallSpec& calls, const std::string& text) {
    if (!calls.loose) return Literal(text);
    constexpr std::string_view kSpace = " \n";
    std::string rules, literal;
    bool spaced = false;  // the last part is whitespace
    const auto end_literal = [&] {
      if (!literal.empty()) rules += Quoted(std::exchange(literal, {})) + " ";
    };
    const auto space = [&] {
      end_literal();
      if (!std::exchange(spaced, true)) rules += "[ \\t\\n]{0,16} ";
    };
    for (const char c : text) {
      if (kSpace.find(c) != std::string_view::npos) {
        space();
        continue;
      }
      if (c == '}') space();
      literal += c;
      spaced = false;
      if (c == '{' || c == ':' || c == ',') space();
    }
    end_literal();
    return xgrammar::Grammar::FromEBNF("root ::= " + (rules.empty() ? Quoted("") : rules) + "\n");
  }

  // The arguments of a call in tags, each parameter in its place; those that are not required may
  // be left out.
  static xgrammar::Grammar TagGrammar(const std::string& schema, const std::string& field) {
    auto read = ReadCallParameters(schema, field);
    if (!read.ok()) throw std::runtime_error(read.status().message());
    if (read->others) {
      return xgrammar::Grammar::FromEBNF(
          fmt::format("root ::= (\"<parameter=\" [^<>\\r\\n]{{1,64}} \">\\n\" {} "
                      "\"\\n</parameter>\\n\")*\n{}",
                      kTagTextRule, TagTextRules()));
    }
    // One text of rules, so that all texts of values share theirs.
    std::string root = "root ::= \"\"", rules = TagTextRules();
    int schemas = 0;
    for (const CallParameter& parameter : read->parameters) {
      std::string values;
      for (const std::string& text : parameter.texts)
        values += (values.empty() ? "" : " | ") + text;
      for (const std::string& each : parameter.schemas) {
        const std::string prefix = fmt::format("penstock_json_{}_", schemas++);
        rules += WithNames(SchemaGrammar(each, field, RegexText::kJsonInTag).ToString(),
                           [&](const std::string& name) { return prefix + name; });
        values += (values.empty() ? "" : " | ") + prefix + "root";
      }
      root += fmt::format(" ({} ({}) \"\\n</parameter>\\n\"){}",
                          Quoted("<parameter=" + parameter.key + ">\n"), values,
                          parameter.required ? "" : "?");
    }
    return xgrammar::Grammar::FromEBNF(root + "\n" + rules);
  }

  // The rules with other names, which may stand in texts and classes as well.
  static std::string WithNames(const std::string& rules,
                               const std::function<std::string(const std::string&)>& name_of) {
    const auto begins_name = [](char c) {
      return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_';
    };
    const auto is_word = [&](char c) {
      return begins_name(c) || std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '.' ||
             c == '-';
    };
    std::string out;
    char closes = 0;
    for (size_t i = 0; i < rules.size(); ++i) {
      const char c = rules[i];
      if (closes == 0 && begins_name(c)) {
        size_t end = i;
        while (end < rules.size() && is_word(rules[end])) ++end;
        out += name_of(rules.substr(i, end - i));
        i = end - 1;
        continue;
      }
      out += c;
      if (closes != 0 && c == '\\' && i + 1 < rules.size()) {
        out += rules[++i];
      } else if (c == closes) {
        closes = 0;
      } else if (closes == 0 && (c == '"' || c == '[')) {
        closes = c == '"' ? '"' : ']';
      }
    }
    return out;
  }

  // The compiler that knows the markers of calls; seldom needed, and large. Text between tags may
  // have control characters. A model writes calls in one form.
  xgrammar::GrammarCompiler& Calls(bool tags) {
    std::optional<xgrammar::GrammarCompiler>& compiler = tags ? tags_ : calls_;
    if (!compiler) {
      std::vector<std::string> tokens =
          tags ? vocabulary_->tokens : WithoutControls(vocabulary_->tokens);
      for (const auto& [id, text] : vocabulary_->markers) tokens[static_cast<size_t>(id)] = text;
      compiler.emplace(Tokens(tokens, vocabulary_->ends), 1, /*cache_enabled=*/false);
    }
    return *compiler;
  }

  const std::shared_ptr<const GrammarVocabulary> vocabulary_;
  std::mutex mutex_;
  xgrammar::GrammarCompiler compiler_;
  // JSON needs no control characters but line breaks, and some rules of the library would let them
  // into its texts.
  xgrammar::GrammarCompiler json_;
  std::optional<xgrammar::GrammarCompiler> calls_, tags_;
};

}  // namespace

bool HasGrammars() { return true; }

Expected<std::unique_ptr<GrammarCompiler>> MakeGrammarCompiler(
    std::shared_ptr<const GrammarVocabulary> vocabulary) {
  try {
    return std::unique_ptr<GrammarCompiler>(std::make_unique<XCompiler>(std::move(vocabulary)));
  } catch (...) {
    return ExceptionStatus();
  }
}

}  // namespace penstock::grammar
#endif
