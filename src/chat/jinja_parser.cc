#include "chat/jinja_parser.h"

#include <algorithm>
#include <array>

#include "chat/jinja_builtins.h"

namespace penstock::chat::jinja {
namespace {

// Python's compiler takes no more loops in each other.
constexpr int kLoopDepthMax = 20;

constexpr std::array<std::string_view, 6> kUnsupportedTags = {"extends", "block", "include",
                                                              "import",  "from",  "autoescape"};

StmtPtr NewStmt(StmtKind kind, int line) {
  auto stmt = std::make_unique<Stmt>();
  stmt->kind = kind;
  stmt->line = line;
  return stmt;
}

bool CanAssign(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::kName:
    case ExprKind::kNamespaceRef:
      return true;
    case ExprKind::kTuple:
      return std::all_of(expr.kids.begin(), expr.kids.end(),
                         [](const ExprPtr& kid) { return CanAssign(*kid); });
    default:
      return false;
  }
}

void MarkStored(Expr* expr) {
  expr->stored = true;
  for (const ExprPtr& kid : expr->kids) MarkStored(kid.get());
}

}  // namespace

// ---- Tokens

Token Parser::Take() {
  Token token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool Parser::SkipName(std::string_view name) {
  if (!IsName(name)) return false;
  ++at_;
  return true;
}

bool Parser::SkipOperator(std::string_view sign) {
  if (!IsOperator(sign)) return false;
  ++at_;
  return true;
}

void Parser::FailHere(const std::string& message) const { FailAt(Now().line, message); }

void Parser::FailUnexpected() const {
  switch (Now().kind) {
    case TokenKind::kEnd:
      FailHere("unexpected end of the template");
    case TokenKind::kBlockEnd:
    case TokenKind::kVariableEnd:
      FailHere("unexpected end of the tag");
    case TokenKind::kString:
      FailHere("unexpected string");
    default:
      FailHere("unexpected '" + Now().text + "'");
  }
}

void Parser::Expect(TokenKind kind, const char* what) {
  if (Now().kind != kind) {
    if (Now().kind == TokenKind::kEnd) FailUnexpected();
    FailHere(std::string("expected ") + what + " before '" + Now().text + "'");
  }
  Take();
}

void Parser::ExpectOperator(std::string_view sign) {
  if (!IsOperator(sign)) FailHere("expected '" + std::string(sign) + "'");
  Take();
}

std::string Parser::ExpectName() {
  if (Now().kind != TokenKind::kName) FailHere("expected a name");
  return Take().text;
}

// ---- Statements

Body Parser::Parse() {
  Body body = ParseBody({});
  if (Now().kind != TokenKind::kEnd) FailUnexpected();
  return body;
}

Body Parser::ParseBody(const std::vector<std::string_view>& ends) {
  Body body;
  while (Now().kind != TokenKind::kEnd) {
    const Token token = Take();
    if (token.kind == TokenKind::kData) {
      body.push_back(NewStmt(StmtKind::kData, token.line));
      body.back()->text = token.text;
    } else if (token.kind == TokenKind::kVariableBegin) {
      body.push_back(NewStmt(StmtKind::kOutput, token.line));
      body.back()->exprs.push_back(ParseTuple({}));
      Expect(TokenKind::kVariableEnd, "'}}'");
    } else if (token.kind == TokenKind::kBlockBegin) {
      for (const std::string_view end : ends) {
        if (IsName(end)) return body;
      }
      body.push_back(ParseStatement());
      Expect(TokenKind::kBlockEnd, "'%}'");
    } else {
      FailUnexpected();
    }
  }
  if (!ends.empty()) FailHere("expected {% " + std::string(ends.back()) + " %}");
  return body;
}

Body Parser::ParseBlock(const std::vector<std::string_view>& ends) {
  SkipOperator(":");
  Expect(TokenKind::kBlockEnd, "'%}'");
  if (++blocks_ > kBlockDepthMax) {
    FailHere("blocks are nested deeper than " + std::to_string(kBlockDepthMax));
  }
  Body body = ParseBody(ends);
  --blocks_;
  return body;
}

StmtPtr Parser::ParseStatement() {
  const Token& tag = Now();
  if (tag.kind != TokenKind::kName) FailHere("expected the name of a tag");
  if (tag.text == "for") return ParseFor();
  if (tag.text == "if") return ParseIf();
  if (tag.text == "set") return ParseSet();
  if (tag.text == "with") return ParseWith();
  if (tag.text == "macro") return ParseMacro();
  if (tag.text == "call") return ParseCallBlock();
  if (tag.text == "filter") return ParseFilterBlock();
  if (tag.text == "generation") return ParseGeneration();
  if (tag.text == "print") return ParsePrint();
  if (tag.text == "break") return ParseLoopControl(StmtKind::kBreak);
  if (tag.text == "continue") return ParseLoopControl(StmtKind::kContinue);
  FailTag(tag);
}

void Parser::FailTag(const Token& tag) {
  for (const std::string_view name : kUnsupportedTags) {
    if (tag.text != name) continue;
    throw Error{StatusCode::kUnsupported, "line " + std::to_string(tag.line) + ": {% " + tag.text +
                                              " %} is not supported in chat templates"};
  }
  FailHere("unknown tag '" + tag.text + "'");
}

StmtPtr Parser::ParseFor() {
  StmtPtr stmt = NewStmt(StmtKind::kFor, Take().line);
  stmt->target = ParseTarget(false);
  if (!SkipName("in")) FailHere("expected 'in'");
  TupleRules rules;
  rules.with_condition = false;
  stmt->value = ParseTuple(rules);
  if (SkipName("if")) stmt->test = ParseExpression();
  stmt->recursive = SkipName("recursive");
  if (++loops_ > kLoopDepthMax) {
    FailHere("loops are nested deeper than " + std::to_string(kLoopDepthMax));
  }
  stmt->bodies.push_back(ParseBlock({"else", "endfor"}));
  --loops_;
  if (Take().text == "else") {
    stmt->otherwise = ParseBlock({"endfor"});
    Take();
  }
  return stmt;
}

StmtPtr Parser::ParseIf() {
  StmtPtr stmt = NewStmt(StmtKind::kIf, Now().line);
  TupleRules rules;
  rules.with_condition = false;
  while (true) {
    Take();  // if, elif
    stmt->exprs.push_back(ParseTuple(rules));
    stmt->bodies.push_back(ParseBlock({"elif", "else", "endif"}));
    if (IsName("elif")) continue;
    if (Take().text == "else") {
      stmt->otherwise = ParseBlock({"endif"});
      Take();
    }
    return stmt;
  }
}

StmtPtr Parser::ParseSet() {
  const int line = Take().line;
  ExprPtr target = ParseTarget(true);
  if (SkipOperator("=")) {
    StmtPtr stmt = NewStmt(StmtKind::kSet, line);
    stmt->target = std::move(target);
    stmt->value = ParseTuple({});
    return stmt;
  }
  StmtPtr stmt = NewStmt(StmtKind::kSetBlock, line);
  stmt->target = std::move(target);
  stmt->value = ParseFilter(nullptr);
  stmt->bodies.push_back(ParseBlock({"endset"}));
  Take();
  return stmt;
}

StmtPtr Parser::ParseWith() {
  StmtPtr stmt = NewStmt(StmtKind::kScope, Take().line);
  while (Now().kind != TokenKind::kBlockEnd) {
    if (!stmt->targets.empty()) ExpectOperator(",");
    stmt->targets.push_back(ParseTarget(false));
    ExpectOperator("=");
    stmt->exprs.push_back(ParseExpression());
  }
  stmt->bodies.push_back(ParseBlock({"endwith"}));
  Take();
  return stmt;
}

// A macro's body is a function of its own: no loop around it can be left from inside.
Body Parser::ParseMacroBody(const std::vector<std::string_view>& ends) {
  const int loops = loops_;
  loops_ = 0;
  Body body = ParseBlock(ends);
  loops_ = loops;
  Take();
  return body;
}

StmtPtr Parser::ParseMacro() {
  StmtPtr stmt = NewStmt(StmtKind::kMacro, Take().line);
  stmt->target = ParseTargetName();
  stmt->macro = std::make_unique<MacroDef>();
  stmt->macro->name = stmt->target->text;
  ParseSignature(stmt->macro.get());
  stmt->macro->body = ParseMacroBody({"endmacro"});
  return stmt;
}

StmtPtr Parser::ParseCallBlock() {
  StmtPtr stmt = NewStmt(StmtKind::kCallBlock, Take().line);
  stmt->macro = std::make_unique<MacroDef>();
  if (IsOperator("(")) ParseSignature(stmt->macro.get());
  stmt->value = ParseExpression();
  if (stmt->value->kind != ExprKind::kCall) FailAt(stmt->line, "expected a call");
  stmt->macro->body = ParseMacroBody({"endcall"});
  return stmt;
}

StmtPtr Parser::ParseFilterBlock() {
  StmtPtr stmt = NewStmt(StmtKind::kFilterBlock, Take().line);
  stmt->value = ParseFilter(nullptr, true);
  stmt->bodies.push_back(ParseBlock({"endfilter"}));
  Take();
  return stmt;
}

StmtPtr Parser::ParseGeneration() {
  StmtPtr stmt = NewStmt(StmtKind::kScope, Take().line);
  stmt->bodies.push_back(ParseMacroBody({"endgeneration"}));
  return stmt;
}

StmtPtr Parser::ParsePrint() {
  StmtPtr stmt = NewStmt(StmtKind::kOutput, Take().line);
  while (Now().kind != TokenKind::kBlockEnd) {
    if (!stmt->exprs.empty()) ExpectOperator(",");
    stmt->exprs.push_back(ParseExpression());
  }
  return stmt;
}

StmtPtr Parser::ParseLoopControl(StmtKind kind) {
  if (loops_ == 0) FailHere("{% " + Now().text + " %} stands outside of a loop");
  return NewStmt(kind, Take().line);
}

void Parser::ParseSignature(MacroDef* macro) {
  ExpectOperator("(");
  while (!IsOperator(")")) {
    if (!macro->params.empty()) ExpectOperator(",");
    MacroDef::Param param;
    param.target = ParseTargetName();
    param.name = param.target->text;
    for (const MacroDef::Param& other : macro->params) {
      if (other.name == param.name) FailHere("parameter '" + param.name + "' is named twice");
    }
    if (SkipOperator("=")) {
      param.fallback = ParseExpression();
    } else if (!macro->params.empty() && macro->params.back().fallback != nullptr) {
      FailHere("a parameter without a default follows one that has one");
    }
    macro->params.push_back(std::move(param));
  }
  Take();
}

ExprPtr Parser::ParseTarget(bool with_namespace) {
  TupleRules rules;
  rules.simple = true;
  rules.with_namespace = with_namespace;
  ExprPtr target = ParseTuple(rules);
  if (!CanAssign(*target)) FailAt(target->line, "this cannot be assigned to");
  MarkStored(target.get());
  return target;
}

ExprPtr Parser::ParseTargetName() {
  const int line = Now().line;
  ExprPtr name = New(ExprKind::kName, line);
  name->text = ExpectName();
  name->stored = true;
  for (const std::string_view word : {"true", "false", "none", "True", "False", "None"}) {
    if (name->text == word) FailAt(line, "'" + name->text + "' cannot be assigned to");
  }
  return name;
}

}  // namespace penstock::chat::jinja
