// GrammarCompiler by XGrammar. The only file that includes it.
#ifdef PENSTOCK_HAVE_XGRAMMAR
#include <fmt/format.h>
#include <xgrammar/compiler.h>
#include <xgrammar/matcher.h>

#include <algorithm>
#include <ctime>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "common/exception_status.h"
#include "common/log.h"
#include "common/printable.h"
#include "grammar/grammar_compiler.h"
#include "grammar/regex_rules.h"
#include "grammar/schema_rules.h"

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
  Warnings() { xgrammar::warnings = &first_; }
  ~Warnings() { xgrammar::warnings = nullptr; }
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;
  const std::string& first() const { return first_; }

 private:
  std::string first_;
};

class XConstraint final : public Constraint {
 public:
  XConstraint(const xgrammar::CompiledGrammar& grammar, size_t words)
      : matcher_(grammar), words_(words) {}

  Status Mask(std::span<uint32_t> allowed) override {
    try {
      int64_t shape[] = {static_cast<int64_t>(words_)};
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
    try {
      if (matcher_.AcceptToken(id)) return Status::Ok();
    } catch (...) {
      return ExceptionStatus();
    }
    return Status::Internal(fmt::format("token {} is not allowed by the grammar of the text", id));
  }

  void RollBack(int32_t tokens) override { matcher_.Rollback(tokens); }

  std::string Forced() override {
    try {
      return matcher_.FindJumpForwardString();
    } catch (...) {
      return "";
    }
  }

 private:
  xgrammar::GrammarMatcher matcher_;
  const size_t words_;
};

class XGrammar final : public Grammar {
 public:
  XGrammar(xgrammar::CompiledGrammar compiled, std::shared_ptr<const GrammarVocabulary> vocabulary)
      : compiled_(std::move(compiled)), vocabulary_(std::move(vocabulary)) {}

  Expected<std::unique_ptr<Constraint>> Begin() const override {
    try {
      return std::unique_ptr<Constraint>(
          std::make_unique<XConstraint>(compiled_, MaskWords(vocabulary_->tokens.size())));
    } catch (...) {
      return ExceptionStatus();
    }
  }
  const GrammarVocabulary& vocabulary() const override { return *vocabulary_; }
  size_t bytes() const override { return compiled_.MemorySizeBytes(); }

 private:
  const xgrammar::CompiledGrammar compiled_;
  const std::shared_ptr<const GrammarVocabulary> vocabulary_;
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
            std::make_shared<XGrammar>(std::move(compiled), vocabulary_));
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
  xgrammar::CompiledGrammar CompileSpec(const GrammarSpec& spec) {
    switch (spec.kind) {
      case GrammarKind::kJson:
        return json_.CompileJSONSchema(R"({"type":"object","additionalProperties":true})");
      case GrammarKind::kJsonSchema:
        return CompileSchema(spec);
      case GrammarKind::kRegex:
        return compiler_.CompileGrammar("root ::= " + RulesOf(spec.text, RegexText::kPlain));
      case GrammarKind::kChoice:
        return compiler_.CompileGrammar(ChoiceRules(spec.choices));
      case GrammarKind::kRules:
        return compiler_.CompileGrammar(spec.text);
    }
    throw std::runtime_error("no such kind");
  }

  static std::string RulesOf(std::string_view pattern, RegexText text) {
    auto rules = RegexRules(pattern, text);
    if (!rules.ok()) throw std::runtime_error("it " + rules.status().message());
    return *std::move(rules);
  }

  // Our rules take the places of their constants, which stand inside of texts in double quotes.
  xgrammar::CompiledGrammar CompileSchema(const GrammarSpec& spec) {
    auto rewritten = RewriteSchema(spec.text, spec.field);
    if (!rewritten.ok()) throw std::runtime_error(rewritten.status().message());
    const xgrammar::Grammar grammar = xgrammar::Grammar::FromJSONSchema(rewritten->schema);
    if (rewritten->rules.empty()) return json_.CompileGrammar(grammar);
    std::string rules = grammar.ToString();
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
    return json_.CompileGrammar(rules);
  }

  const std::shared_ptr<const GrammarVocabulary> vocabulary_;
  std::mutex mutex_;
  xgrammar::GrammarCompiler compiler_;
  // JSON needs no control characters but line breaks, and some rules of the library would let them
  // into its texts.
  xgrammar::GrammarCompiler json_;
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
