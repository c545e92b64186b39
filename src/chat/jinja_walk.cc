#include "chat/jinja_walk.h"

#include <functional>

#include "chat/jinja_builtins.h"

namespace penstock::chat::jinja {
namespace {

using VisitExpr = std::function<void(const Expr&)>;

void Walk(const Expr* expr, const VisitExpr& visit) {
  if (expr == nullptr) return;
  visit(*expr);
  ForEachKid(*expr, [&](const Expr& kid) { Walk(&kid, visit); });
}

void Walk(const Body& body, const VisitExpr& visit);

// In the order in which the parts stand in the template; of an assignment the target comes first.
void Walk(const Stmt& stmt, const VisitExpr& visit) {
  if (stmt.kind == StmtKind::kMacro || stmt.kind == StmtKind::kCallBlock) {
    Walk(stmt.value.get(), visit);
    for (const MacroDef::Param& param : stmt.macro->params) Walk(param.target.get(), visit);
    for (const MacroDef::Param& param : stmt.macro->params) Walk(param.fallback.get(), visit);
    return Walk(stmt.macro->body, visit);
  }
  for (const ExprPtr& target : stmt.targets) Walk(target.get(), visit);
  Walk(stmt.target.get(), visit);
  Walk(stmt.value.get(), visit);
  if (stmt.kind == StmtKind::kIf) {
    for (size_t i = 0; i < stmt.exprs.size(); ++i) {
      Walk(stmt.exprs[i].get(), visit);
      Walk(stmt.bodies[i], visit);
    }
  } else {
    for (const ExprPtr& expr : stmt.exprs) Walk(expr.get(), visit);
    for (const Body& body : stmt.bodies) Walk(body, visit);
  }
  Walk(stmt.otherwise, visit);
  Walk(stmt.test.get(), visit);
}

void Walk(const Body& body, const VisitExpr& visit) {
  for (const StmtPtr& stmt : body) Walk(*stmt, visit);
}

const std::string* ConstantText(const Expr& expr) {
  return expr.kind == ExprKind::kConst && expr.constant.is_string() ? &expr.text : nullptr;
}

// What a template uses, and what it asks for by itself.
class NameCheck {
 public:
  void Visit(const Expr& expr) {
    switch (expr.kind) {
      case ExprKind::kName:
        if (expr.stored) stored_.insert(expr.text);
        break;
      case ExprKind::kCall:
        if (expr.kids[0]->kind == ExprKind::kName) {
          Use("function", expr.kids[0]->text, expr.line, FindGlobal(expr.kids[0]->text) != nullptr);
        }
        break;
      case ExprKind::kFilter:
        Use("filter", expr.text, expr.line, expr.filter != nullptr);
        VisitByName(expr);
        break;
      case ExprKind::kTest:
        Use("test", expr.text, expr.line, expr.test != nullptr);
        VisitQuestion(expr);
        break;
      default:
        break;
    }
  }
  void Store(const std::string& name) { stored_.insert(name); }

  void Report() const {
    for (const Unknown& unknown : unknown_) {
      if (asked_.contains(unknown.kind + unknown.name)) continue;
      if (unknown.kind == "function" && stored_.contains(unknown.name)) continue;
      throw Error{StatusCode::kUnsupported, "line " + std::to_string(unknown.line) + ": " +
                                                unknown.kind + " '" + unknown.name +
                                                "' is not known"};
    }
  }

 private:
  struct Unknown {
    std::string kind, name;
    int line;
  };
  void Use(const char* kind, const std::string& name, int line, bool known) {
    if (!known) unknown_.push_back({kind, name, line});
  }
  // Filters and tests that stand in the arguments of others: map('upper').
  void VisitByName(const Expr& expr) {
    const auto check = [&](size_t place, bool is_filter) {
      if (expr.call->positional.size() <= place) return;
      const std::string* name = ConstantText(*expr.call->positional[place]);
      if (name == nullptr) return;
      Use(is_filter ? "filter" : "test", *name, expr.line,
          is_filter ? FindFilter(*name) != nullptr : FindTest(*name) != nullptr);
    };
    if (expr.text == "map") check(0, true);
    if (expr.text == "select" || expr.text == "reject") check(0, false);
    if (expr.text == "selectattr" || expr.text == "rejectattr") check(1, false);
  }
  void VisitQuestion(const Expr& expr) {
    const Expr& input = *expr.kids[0];
    if (expr.text == "filter" || expr.text == "test") {
      if (const std::string* name = ConstantText(input)) asked_.insert(expr.text + *name);
    } else if (input.kind == ExprKind::kName &&
               (expr.text == "defined" || expr.text == "undefined" || expr.text == "callable")) {
      asked_.insert("function" + input.text);
    }
  }

  std::set<std::string> stored_ = {"caller", "loop"};
  std::set<std::string> asked_;  // kind and name
  std::vector<Unknown> unknown_;
};

void StoreMacros(const Body& body, NameCheck* check) {
  for (const StmtPtr& stmt : body) {
    if (stmt->kind == StmtKind::kMacro) check->Store(stmt->macro->name);
    for (const Body& inner : stmt->bodies) StoreMacros(inner, check);
    StoreMacros(stmt->otherwise, check);
    if (stmt->macro != nullptr) StoreMacros(stmt->macro->body, check);
  }
}

}  // namespace

std::set<std::string> Undeclared(const Body& body, std::set<std::string> names) {
  std::set<std::string> found;
  Walk(body, [&](const Expr& expr) {
    if (expr.kind != ExprKind::kName) return;
    if (!expr.stored && names.contains(expr.text)) {
      found.insert(expr.text);
    } else {
      names.erase(expr.text);
    }
  });
  return found;
}

void CheckNames(const Template& tree) {
  NameCheck check;
  StoreMacros(tree.body, &check);
  Walk(tree.body, [&](const Expr& expr) { check.Visit(expr); });
  check.Report();
}

ExprPtr CopyTarget(const Expr& target) {
  auto copy = std::make_unique<Expr>();
  copy->kind = target.kind;
  copy->stored = target.stored;
  copy->line = target.line;
  copy->text = target.text;
  for (const ExprPtr& kid : target.kids) copy->kids.push_back(CopyTarget(*kid));
  return copy;
}

}  // namespace penstock::chat::jinja
