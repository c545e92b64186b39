// Makes the tree of a template from its tokens (jinja_lexer.h).
#pragma once

#include <string_view>
#include <vector>

#include "chat/jinja_ast.h"
#include "chat/jinja_lexer.h"

namespace penstock::chat::jinja {

// Levels of expressions in each other, and of blocks in each other. Python's own compiler takes
// fewer.
inline constexpr int kExpressionDepthMax = 200;
inline constexpr int kBlockDepthMax = 60;

// Statements and expressions; variables are not bound yet. Throws Error with the line:
// kInvalidArgument where the template is wrong, kUnsupported, named, where it asks for what is not
// implemented: inheritance and imports, filters, tests.
class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  Body Parse();

 private:
  class Level;

  // ---- Tokens
  const Token& Now() const { return tokens_[at_]; }
  const Token& Ahead() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  bool IsName(std::string_view name) const { return Now().IsName(name); }
  bool IsOperator(std::string_view sign) const { return Now().IsOperator(sign); }
  Token Take();
  bool SkipName(std::string_view name);
  bool SkipOperator(std::string_view sign);
  void Expect(TokenKind kind, const char* what);
  void ExpectOperator(std::string_view sign);
  std::string ExpectName();
  [[noreturn]] void FailHere(const std::string& message) const;
  [[noreturn]] void FailUnexpected() const;

  // ---- Statements (jinja_parser.cc)
  // Up to a tag of one of `ends`, at whose name it stops.
  Body ParseBody(const std::vector<std::string_view>& ends);
  Body ParseBlock(const std::vector<std::string_view>& ends);
  StmtPtr ParseStatement();
  StmtPtr ParseFor();
  StmtPtr ParseIf();
  StmtPtr ParseSet();
  StmtPtr ParseWith();
  StmtPtr ParseMacro();
  StmtPtr ParseCallBlock();
  StmtPtr ParseFilterBlock();
  StmtPtr ParseGeneration();
  StmtPtr ParsePrint();
  StmtPtr ParseLoopControl(StmtKind kind);
  [[noreturn]] void FailTag(const Token& tag);
  void ParseSignature(MacroDef* macro);
  Body ParseMacroBody(const std::vector<std::string_view>& ends);
  ExprPtr ParseTarget(bool with_namespace);
  ExprPtr ParseTargetName();

  // ---- Expressions (jinja_parser_expr.cc)
  ExprPtr ParseExpression(bool with_condition = true);
  ExprPtr ParseCondition();
  ExprPtr ParseOr();
  ExprPtr ParseAnd();
  ExprPtr ParseNot();
  ExprPtr ParseCompare();
  ExprPtr ParseSum();
  ExprPtr ParseConcat();
  ExprPtr ParseProduct();
  ExprPtr ParsePower();
  ExprPtr ParseUnary(bool with_filter = true);
  ExprPtr ParsePrimary(bool with_namespace = false);
  ExprPtr ParseNamed(bool with_namespace);
  struct TupleRules {
    bool simple = false, with_condition = true, in_parentheses = false, with_namespace = false;
  };
  ExprPtr ParseTuple(const TupleRules& rules);
  ExprPtr ParseList();
  ExprPtr ParseDict();
  ExprPtr ParsePostfix(ExprPtr expr);
  ExprPtr ParseFilters(ExprPtr expr);
  ExprPtr ParseSubscript(ExprPtr object);
  ExprPtr ParseIndex(ExprPtr object, int line);
  ExprPtr ParseCall(ExprPtr function);
  ExprPtr ParseFilter(ExprPtr input, bool inline_start = false);
  ExprPtr ParseTest(ExprPtr input);
  std::unique_ptr<CallArgs> ParseCallArgs(int* height);
  std::string ParseDottedName();
  bool CompareSign(CompareOp* op);

  ExprPtr New(ExprKind kind, int line, ExprPtr a = nullptr, ExprPtr b = nullptr,
              ExprPtr c = nullptr);
  // Takes the kids' heights into account; fails past kExpressionDepthMax.
  void Raise(Expr* expr, int height) const;

  const std::vector<Token> tokens_;
  size_t at_ = 0;
  int blocks_ = 0;  // open
  int loops_ = 0;   // open in this macro
  int depth_ = 0;   // of the expression being parsed
};

}  // namespace penstock::chat::jinja
