// Expressions of the parser, from the loosest operator to the tightest.
#include <algorithm>

#include "chat/jinja_builtins.h"
#include "chat/jinja_parser.h"

namespace penstock::chat::jinja {

// One expression inside another.
class Parser::Level {
 public:
  explicit Level(Parser* parser) : parser_(parser) {
    if (++parser_->depth_ > kExpressionDepthMax) {
      parser_->FailHere("expressions are nested deeper than " +
                        std::to_string(kExpressionDepthMax));
    }
  }
  ~Level() { --parser_->depth_; }

 private:
  Parser* parser_;
};

void Parser::Raise(Expr* expr, int height) const {
  expr->height = std::max(expr->height, height + 1);
  if (expr->height > kExpressionDepthMax) {
    FailAt(expr->line,
           "an expression has more than " + std::to_string(kExpressionDepthMax) + " levels");
  }
}

ExprPtr Parser::New(ExprKind kind, int line, ExprPtr a, ExprPtr b, ExprPtr c) {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = line;
  for (ExprPtr* kid : {&a, &b, &c}) {
    if (*kid == nullptr) continue;
    Raise(expr.get(), (*kid)->height);
    expr->kids.push_back(std::move(*kid));
  }
  return expr;
}

ExprPtr Parser::ParseExpression(bool with_condition) {
  const Level level(this);
  return with_condition ? ParseCondition() : ParseOr();
}

ExprPtr Parser::ParseCondition() {
  const Level level(this);
  int line = Now().line;
  ExprPtr then = ParseOr();
  while (SkipName("if")) {
    ExprPtr test = ParseOr();
    ExprPtr otherwise = SkipName("else") ? ParseCondition() : nullptr;
    then = New(ExprKind::kCond, line, std::move(test), std::move(then), std::move(otherwise));
    line = Now().line;
  }
  return then;
}

ExprPtr Parser::ParseOr() {
  ExprPtr left = ParseAnd();
  while (IsName("or")) {
    const int line = Take().line;
    left = New(ExprKind::kOr, line, std::move(left), ParseAnd());
  }
  return left;
}

ExprPtr Parser::ParseAnd() {
  ExprPtr left = ParseNot();
  while (IsName("and")) {
    const int line = Take().line;
    left = New(ExprKind::kAnd, line, std::move(left), ParseNot());
  }
  return left;
}

ExprPtr Parser::ParseNot() {
  if (!IsName("not")) return ParseCompare();
  const Level level(this);
  const int line = Take().line;
  return New(ExprKind::kNot, line, ParseNot());
}

bool Parser::CompareSign(CompareOp* op) {
  static constexpr std::pair<std::string_view, CompareOp> kSigns[] = {
      {"==", CompareOp::kEq}, {"!=", CompareOp::kNe}, {"<", CompareOp::kLt},
      {"<=", CompareOp::kLe}, {">", CompareOp::kGt},  {">=", CompareOp::kGe}};
  for (const auto& [sign, found] : kSigns) {
    if (!SkipOperator(sign)) continue;
    *op = found;
    return true;
  }
  *op = CompareOp::kIn;
  if (SkipName("in")) return true;
  if (!IsName("not") || !Ahead().IsName("in")) return false;
  at_ += 2;
  *op = CompareOp::kNotIn;
  return true;
}

ExprPtr Parser::ParseCompare() {
  const int line = Now().line;
  ExprPtr first = ParseSum();
  CompareOp op;
  if (!CompareSign(&op)) return first;
  ExprPtr chain = New(ExprKind::kCompare, line, std::move(first));
  do {
    chain->ops.push_back(op);
    chain->kids.push_back(ParseSum());
    Raise(chain.get(), chain->kids.back()->height);
  } while (CompareSign(&op));
  return chain;
}

ExprPtr Parser::ParseSum() {
  ExprPtr left = ParseConcat();
  while (IsOperator("+") || IsOperator("-")) {
    const Token sign = Take();
    left = New(sign.text == "+" ? ExprKind::kAdd : ExprKind::kSub, sign.line, std::move(left),
               ParseConcat());
  }
  return left;
}

ExprPtr Parser::ParseConcat() {
  const int line = Now().line;
  ExprPtr first = ParseProduct();
  if (!IsOperator("~")) return first;
  ExprPtr concat = New(ExprKind::kConcat, line, std::move(first));
  while (SkipOperator("~")) {
    concat->kids.push_back(ParseProduct());
    Raise(concat.get(), concat->kids.back()->height);
  }
  return concat;
}

ExprPtr Parser::ParseProduct() {
  static constexpr std::pair<std::string_view, ExprKind> kSigns[] = {{"*", ExprKind::kMul},
                                                                     {"/", ExprKind::kDiv},
                                                                     {"//", ExprKind::kFloorDiv},
                                                                     {"%", ExprKind::kMod}};
  ExprPtr left = ParsePower();
  while (true) {
    const auto* sign = std::find_if(std::begin(kSigns), std::end(kSigns),
                                    [&](const auto& entry) { return IsOperator(entry.first); });
    if (sign == std::end(kSigns)) return left;
    const int line = Take().line;
    left = New(sign->second, line, std::move(left), ParsePower());
  }
}

ExprPtr Parser::ParsePower() {
  ExprPtr left = ParseUnary();
  while (IsOperator("**")) {
    const int line = Take().line;
    left = New(ExprKind::kPow, line, std::move(left), ParseUnary());
  }
  return left;
}

ExprPtr Parser::ParseUnary(bool with_filter) {
  const Level level(this);
  const int line = Now().line;
  ExprPtr expr;
  if (SkipOperator("-")) {
    expr = New(ExprKind::kNeg, line, ParseUnary(false));
  } else if (SkipOperator("+")) {
    expr = New(ExprKind::kPos, line, ParseUnary(false));
  } else {
    expr = ParsePrimary();
  }
  expr = ParsePostfix(std::move(expr));
  return with_filter ? ParseFilters(std::move(expr)) : std::move(expr);
}

ExprPtr Parser::ParseNamed(bool with_namespace) {
  const Token token = Take();
  ExprPtr expr = New(ExprKind::kConst, token.line);
  if (token.text == "true" || token.text == "True") {
    expr->constant = Value::Bool(true);
  } else if (token.text == "false" || token.text == "False") {
    expr->constant = Value::Bool(false);
  } else if (token.text == "none" || token.text == "None") {
    expr->constant = Value::None();
  } else {
    expr->kind = ExprKind::kName;
    expr->text = token.text;
    if (with_namespace && SkipOperator(".")) {
      expr->kind = ExprKind::kNamespaceRef;
      ExprPtr attribute = New(ExprKind::kConst, token.line);
      attribute->text = ExpectName();
      expr->kids.push_back(std::move(attribute));
    }
  }
  return expr;
}

ExprPtr Parser::ParsePrimary(bool with_namespace) {
  switch (Now().kind) {
    case TokenKind::kName:
      return ParseNamed(with_namespace);
    case TokenKind::kString: {
      ExprPtr expr = New(ExprKind::kConst, Now().line);
      while (Now().kind == TokenKind::kString) expr->text += Take().text;
      expr->constant = Value::Borrowed(expr->text);
      return expr;
    }
    case TokenKind::kInteger: {
      ExprPtr expr = New(ExprKind::kConst, Now().line);
      expr->constant = Value::Int(Take().integer);
      return expr;
    }
    case TokenKind::kFloat: {
      ExprPtr expr = New(ExprKind::kConst, Now().line);
      expr->constant = Value::Float(Take().real);
      return expr;
    }
    default:
      break;
  }
  if (IsOperator("[")) return ParseList();
  if (IsOperator("{")) return ParseDict();
  if (!SkipOperator("(")) FailUnexpected();
  TupleRules rules;
  rules.in_parentheses = true;
  ExprPtr expr = ParseTuple(rules);
  ExpectOperator(")");
  return expr;
}

ExprPtr Parser::ParseTuple(const TupleRules& rules) {
  const int line = Now().line;
  const auto ends = [&] {
    return Now().kind == TokenKind::kVariableEnd || Now().kind == TokenKind::kBlockEnd ||
           IsOperator(")");
  };
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) ExpectOperator(",");
    if (ends()) break;
    items.push_back(rules.simple ? ParsePrimary(rules.with_namespace)
                                 : ParseExpression(rules.with_condition));
    if (!IsOperator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!items.empty()) return std::move(items[0]);
    if (!rules.in_parentheses) FailUnexpected();
  }
  ExprPtr tuple = New(ExprKind::kTuple, line);
  for (const ExprPtr& item : items) Raise(tuple.get(), item->height);
  tuple->kids = std::move(items);
  return tuple;
}

ExprPtr Parser::ParseList() {
  ExprPtr list = New(ExprKind::kList, Take().line);
  while (!IsOperator("]")) {
    if (!list->kids.empty()) ExpectOperator(",");
    if (IsOperator("]")) break;
    list->kids.push_back(ParseExpression());
    Raise(list.get(), list->kids.back()->height);
  }
  Take();
  return list;
}

ExprPtr Parser::ParseDict() {
  ExprPtr dict = New(ExprKind::kDict, Take().line);
  while (!IsOperator("}")) {
    if (!dict->kids.empty()) ExpectOperator(",");
    if (IsOperator("}")) break;
    for (const bool key : {true, false}) {
      if (!key) ExpectOperator(":");
      dict->kids.push_back(ParseExpression());
      Raise(dict.get(), dict->kids.back()->height);
    }
  }
  Take();
  return dict;
}

ExprPtr Parser::ParsePostfix(ExprPtr expr) {
  while (true) {
    if (IsOperator(".") || IsOperator("[")) {
      expr = ParseSubscript(std::move(expr));
    } else if (IsOperator("(")) {
      expr = ParseCall(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr Parser::ParseFilters(ExprPtr expr) {
  while (true) {
    if (IsOperator("|")) {
      expr = ParseFilter(std::move(expr));
    } else if (IsName("is")) {
      expr = ParseTest(std::move(expr));
    } else if (IsOperator("(")) {
      expr = ParseCall(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr Parser::ParseSubscript(ExprPtr object) {
  const Token sign = Take();
  if (sign.text == "[") return ParseIndex(std::move(object), sign.line);
  const Token attribute = Take();
  if (attribute.kind == TokenKind::kName) {
    ExprPtr expr = New(ExprKind::kAttribute, sign.line, std::move(object));
    expr->text = attribute.text;
    return expr;
  }
  if (attribute.kind != TokenKind::kInteger) FailAt(attribute.line, "expected a name or a number");
  ExprPtr key = New(ExprKind::kConst, attribute.line);
  key->constant = Value::Int(attribute.integer);
  return New(ExprKind::kItem, sign.line, std::move(object), std::move(key));
}

// Behind '[': a key, several of them, which are a tuple, or a slice.
ExprPtr Parser::ParseIndex(ExprPtr object, int line) {
  std::vector<ExprPtr> keys;
  while (!IsOperator("]")) {
    if (!keys.empty()) ExpectOperator(",");
    ExprPtr start = IsOperator(":") ? nullptr : ParseExpression();
    if (!IsOperator(":")) {
      keys.push_back(std::move(start));
      continue;
    }
    if (!keys.empty()) FailHere("a slice stands beside other keys");
    ExprPtr parts[3] = {std::move(start), nullptr, nullptr};
    for (int i = 1; i < 3 && SkipOperator(":"); ++i) {
      if (!IsOperator(":") && !IsOperator("]") && !IsOperator(",")) parts[i] = ParseExpression();
    }
    ExpectOperator("]");
    ExprPtr slice = New(ExprKind::kSlice, line, std::move(object));
    for (ExprPtr& part : parts) {
      if (part != nullptr) Raise(slice.get(), part->height);
      slice->kids.push_back(std::move(part));
    }
    return slice;
  }
  Take();
  if (keys.size() == 1) {
    return New(ExprKind::kItem, line, std::move(object), std::move(keys[0]));
  }
  ExprPtr tuple = New(ExprKind::kTuple, line);
  for (const ExprPtr& key : keys) Raise(tuple.get(), key->height);
  tuple->kids = std::move(keys);
  return New(ExprKind::kItem, line, std::move(object), std::move(tuple));
}

std::unique_ptr<CallArgs> Parser::ParseCallArgs(int* height) {
  auto call = std::make_unique<CallArgs>();
  const int line = Now().line;
  const auto check = [&](bool good) {
    if (!good) FailAt(line, "the arguments of a call are in the wrong order");
  };
  const auto value = [&] {
    ExprPtr expr = ParseExpression();
    *height = std::max(*height, expr->height);
    return expr;
  };
  ExpectOperator("(");
  bool first = true;
  while (!IsOperator(")")) {
    if (!first) {
      ExpectOperator(",");
      if (IsOperator(")")) break;
    }
    first = false;
    if (SkipOperator("*")) {
      check(call->star == nullptr && call->star_star == nullptr);
      call->star = value();
    } else if (SkipOperator("**")) {
      check(call->star_star == nullptr);
      call->star_star = value();
    } else if (Now().kind == TokenKind::kName && Ahead().IsOperator("=")) {
      check(call->star_star == nullptr);
      std::string name = Take().text;
      Take();
      for (const auto& other : call->named) {
        if (other.first == name) FailAt(line, "argument '" + name + "' is given twice");
      }
      call->named.emplace_back(std::move(name), value());
    } else {
      check(call->star == nullptr && call->star_star == nullptr && call->named.empty());
      call->positional.push_back(value());
    }
  }
  Take();
  return call;
}

ExprPtr Parser::ParseCall(ExprPtr function) {
  const int line = Now().line;
  ExprPtr expr = New(ExprKind::kCall, line, std::move(function));
  int height = 0;
  expr->call = ParseCallArgs(&height);
  Raise(expr.get(), height);
  return expr;
}

std::string Parser::ParseDottedName() {
  std::string name = ExpectName();
  while (SkipOperator(".")) name += "." + ExpectName();
  return name;
}

ExprPtr Parser::ParseFilter(ExprPtr expr, bool inline_start) {
  while (inline_start || IsOperator("|")) {
    if (!inline_start) Take();
    inline_start = false;
    const int line = Now().line;
    // A block's first filter has no input in the tree: its kids stay empty.
    ExprPtr filter = New(ExprKind::kFilter, line, std::move(expr));
    filter->text = ParseDottedName();
    int height = 0;
    filter->call = IsOperator("(") ? ParseCallArgs(&height) : std::make_unique<CallArgs>();
    Raise(filter.get(), height);
    filter->filter = FindFilter(filter->text);
    expr = std::move(filter);
  }
  return expr;
}

ExprPtr Parser::ParseTest(ExprPtr input) {
  const int line = Take().line;
  const bool negated = SkipName("not");
  ExprPtr test = New(ExprKind::kTest, line, std::move(input));
  test->text = ParseDottedName();
  int height = 0;
  const TokenKind next = Now().kind;
  if (IsOperator("(")) {
    test->call = ParseCallArgs(&height);
  } else {
    test->call = std::make_unique<CallArgs>();
    const bool operand = next == TokenKind::kName || next == TokenKind::kString ||
                         next == TokenKind::kInteger || next == TokenKind::kFloat ||
                         IsOperator("[") || IsOperator("{");
    if (operand && !IsName("else") && !IsName("or") && !IsName("and")) {
      if (IsName("is")) FailHere("tests with 'is' cannot be chained");
      const Level level(this);
      test->call->positional.push_back(ParsePostfix(ParsePrimary()));
      height = test->call->positional[0]->height;
    }
  }
  Raise(test.get(), height);
  test->test = FindTest(test->text);
  return negated ? New(ExprKind::kNot, line, std::move(test)) : std::move(test);
}

}  // namespace penstock::chat::jinja
