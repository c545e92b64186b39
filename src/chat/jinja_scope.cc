#include "chat/jinja_scope.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "chat/jinja_builtins.h"
#include "chat/jinja_lexer.h"
#include "chat/jinja_walk.h"

namespace penstock::chat::jinja {
namespace {

// Names copied while branches are compared; bounds what a hostile template can make of it.
constexpr size_t kWorkMax = 2'000'000;

// What gets an activation of its own.
struct Frame {
  uint32_t depth = 0;
  uint32_t slots = 0;
};

struct Place {
  uint32_t depth = 0;
  uint32_t index = 0;
};

// The variables of one block. Blocks of one frame share its activation.
class Scope {
 public:
  Scope(const Scope* parent, Frame* frame)
      : parent_(parent), frame_(frame), indices_(std::make_shared<Names>()) {}

  Frame* frame() const { return frame_; }
  size_t size() const { return refs_.size() + loads_.size(); }

  std::optional<Place> Find(const std::string& name) const {
    for (const Scope* scope = this; scope != nullptr; scope = scope->parent_) {
      const auto it = scope->refs_.find(name);
      if (it != scope->refs_.end()) return Place{scope->frame_->depth, it->second};
    }
    return std::nullopt;
  }
  uint32_t Parameter(const std::string& name) {
    stores_.insert(name);
    const uint32_t index = Define(name);
    loads_.erase(index);
    return index;
  }
  void Read(const std::string& name) {
    if (!Find(name)) Set(Define(name), Load::Action::kContext, name, {});
  }
  void Store(const std::string& name) {
    stores_.insert(name);
    if (refs_.contains(name)) return;
    const auto outer = parent_ == nullptr ? std::nullopt : parent_->Find(name);
    Set(Define(name), outer ? Load::Action::kCopy : Load::Action::kClear, name,
        outer.value_or(Place()));
  }
  // After the branches of an `if`, each analysed on a copy of this: what one of them sets has, in
  // the others, the value from outside.
  void Merge(const std::vector<Scope>& branches) {
    std::set<std::string> stored;
    for (const Scope& branch : branches) {
      for (const std::string& name : branch.stores_) {
        if (!stores_.contains(name)) stored.insert(name);
      }
    }
    for (const Scope& branch : branches) {
      for (const auto& ref : branch.refs_) refs_[ref.first] = ref.second;
      for (const auto& load : branch.loads_) loads_[load.first] = load.second;
      stores_.insert(branch.stores_.begin(), branch.stores_.end());
    }
    for (const std::string& name : stored) {
      const auto outer = parent_ == nullptr ? std::nullopt : parent_->Find(name);
      Set(Find(name)->index, outer ? Load::Action::kCopy : Load::Action::kContext, name,
          outer.value_or(Place()));
    }
  }

  Loads MakeLoads(std::set<std::string>* reads) const {
    Loads loads;
    for (const auto& [index, pending] : loads_) {
      Load load;
      load.action = pending.action;
      load.to = index;
      if (load.action == Load::Action::kCopy) {
        load.from = {frame_->depth - pending.from.depth, pending.from.index};
      }
      if (load.action == Load::Action::kContext) {
        load.name = pending.name;
        if (FindGlobal(load.name) == nullptr) reads->insert(load.name);
      }
      loads.push_back(std::move(load));
    }
    return loads;
  }

 private:
  using Names = std::map<std::string, uint32_t>;
  struct Pending {
    Load::Action action;
    std::string name;
    Place from;
  };
  uint32_t Define(const std::string& name) {
    const auto [it, added] = indices_->emplace(name, frame_->slots);
    if (added) ++frame_->slots;
    refs_[name] = it->second;
    return it->second;
  }
  void Set(uint32_t index, Load::Action action, const std::string& name, Place from) {
    loads_[index] = {action, name, from};
  }

  const Scope* parent_;
  Frame* frame_;
  std::shared_ptr<Names> indices_;  // shared with copies
  Names refs_;
  std::map<uint32_t, Pending> loads_;
  std::set<std::string> stores_;
};

class Binder {
 public:
  explicit Binder(Template* tree) : tree_(tree) {}

  void Run() {
    Frame frame;
    Scope scope(nullptr, &frame);
    Analyze(&scope, tree_->body);
    tree_->loads = scope.MakeLoads(&tree_->reads);
    BindAll(scope, tree_->body);
    tree_->slots = frame.slots;
  }

 private:
  // ---- Which variables a block has (its inner blocks left out)
  void Analyze(Scope* scope, const Body& body) {
    for (const StmtPtr& stmt : body) Analyze(scope, *stmt);
  }
  void Analyze(Scope* scope, const Expr* expr) {
    if (expr == nullptr) return;
    if (expr->kind == ExprKind::kName && expr->stored) {
      scope->Store(expr->text);
    } else if (expr->kind == ExprKind::kName || expr->kind == ExprKind::kNamespaceRef) {
      scope->Read(expr->text);
    }
    ForEachKid(*expr, [&](const Expr& kid) { Analyze(scope, &kid); });
  }
  void Analyze(Scope* scope, const std::vector<ExprPtr>& exprs) {
    for (const ExprPtr& expr : exprs) Analyze(scope, expr.get());
  }
  void Analyze(Scope* scope, const Stmt& stmt) {
    switch (stmt.kind) {
      case StmtKind::kOutput:
      case StmtKind::kScope:
        return Analyze(scope, stmt.exprs);
      case StmtKind::kSet:
        Analyze(scope, stmt.value.get());
        return Analyze(scope, stmt.target.get());
      case StmtKind::kSetBlock:
      case StmtKind::kMacro:
        return Analyze(scope, stmt.target.get());
      case StmtKind::kFor:
      case StmtKind::kCallBlock:
      case StmtKind::kFilterBlock:
        return Analyze(scope, stmt.value.get());
      case StmtKind::kIf:
        return AnalyzeIf(scope, stmt);
      default:
        return;
    }
  }
  Scope Branch(const Scope& scope, const Body& body) {
    Count(scope, stmt_line_);
    Scope branch = scope;
    Analyze(&branch, body);
    return branch;
  }
  // As if each elif were an `if` of its own in the place of else.
  void AnalyzeIf(Scope* scope, const Stmt& stmt) {
    stmt_line_ = stmt.line;
    Analyze(scope, stmt.exprs[0].get());
    std::vector<Scope> branches;
    branches.push_back(Branch(*scope, stmt.bodies[0]));
    Scope elifs = *scope;
    for (size_t i = 1; i < stmt.exprs.size(); ++i) {
      Analyze(&elifs, stmt.exprs[i].get());
      const std::vector<Scope> one = {Branch(elifs, stmt.bodies[i])};
      elifs.Merge(one);
    }
    branches.push_back(std::move(elifs));
    branches.push_back(Branch(*scope, stmt.otherwise));
    scope->Merge(branches);
  }
  void Count(const Scope& scope, int line) {
    work_ += scope.size() + 1;
    if (work_ > kWorkMax) FailAt(line, "the template has too many variables and branches");
  }
  void Parameters(Scope* scope, const Expr& target) {
    if (target.kind == ExprKind::kName) scope->Parameter(target.text);
    for (const ExprPtr& kid : target.kids) Parameters(scope, *kid);
  }

  // ---- Binding
  void BindAll(const Scope& scope, Body& body) {
    for (const StmtPtr& stmt : body) Bind(scope, *stmt);
  }
  void Bind(const Scope& scope, Expr* expr) {
    if (expr == nullptr) return;
    if (expr->kind == ExprKind::kName || expr->kind == ExprKind::kNamespaceRef) {
      const auto place = scope.Find(expr->text);
      PENSTOCK_CHECK(place.has_value());
      expr->slot = {scope.frame()->depth - place->depth, place->index};
      if (loops_ > 0 && expr->stored && expr->text == "loop") {
        FailAt(expr->line, "'loop' cannot be assigned to in a loop");
      }
    }
    ForEachKid(*expr, [&](Expr& kid) { Bind(scope, &kid); });
  }
  void Bind(const Scope& scope, std::vector<ExprPtr>& exprs) {
    for (const ExprPtr& expr : exprs) Bind(scope, expr.get());
  }
  void Bind(const Scope& scope, Stmt& stmt) {
    switch (stmt.kind) {
      case StmtKind::kSetBlock:
      case StmtKind::kFilterBlock:
      case StmtKind::kScope:
        return BindInner(scope, stmt);
      case StmtKind::kFor:
        return BindFor(scope, stmt);
      case StmtKind::kMacro:
      case StmtKind::kCallBlock:
        Bind(scope, stmt.target.get());
        Bind(scope, stmt.value.get());
        return BindMacro(scope, stmt.macro.get(), stmt.line);
      default:
        Bind(scope, stmt.exprs);
        Bind(scope, stmt.target.get());
        Bind(scope, stmt.value.get());
        for (Body& body : stmt.bodies) BindAll(scope, body);
        BindAll(scope, stmt.otherwise);
    }
  }
  void BindInner(const Scope& scope, Stmt& stmt) {
    Scope inner(&scope, scope.frame());
    for (const ExprPtr& target : stmt.targets) Parameters(&inner, *target);
    Analyze(&inner, stmt.value.get());  // the filter
    Analyze(&inner, stmt.bodies[0]);
    stmt.loads = inner.MakeLoads(&tree_->reads);
    Bind(scope, stmt.exprs);
    Bind(scope, stmt.target.get());
    Bind(inner, stmt.targets);
    Bind(inner, stmt.value.get());
    BindAll(inner, stmt.bodies[0]);
  }
  void BindFor(const Scope& scope, Stmt& stmt) {
    Frame own{scope.frame()->depth + 1, 0};
    Frame* frame = stmt.recursive ? &own : scope.frame();
    Bind(scope, stmt.value.get());
    Scope body(&scope, frame), test(&scope, frame), otherwise(&scope, frame);
    stmt.extended = stmt.recursive || !Undeclared(stmt.bodies[0], {"loop"}).empty();
    if (stmt.extended) stmt.loop_slot = body.Parameter("loop");
    Parameters(&body, *stmt.target);
    Analyze(&body, stmt.bodies[0]);
    Analyze(&otherwise, stmt.otherwise);
    ++loops_;
    if (stmt.test != nullptr) {
      stmt.test_target = CopyTarget(*stmt.target);
      Parameters(&test, *stmt.target);
      Analyze(&test, stmt.test.get());
      stmt.test_loads = test.MakeLoads(&tree_->reads);
      Bind(test, stmt.test_target.get());
      Bind(test, stmt.test.get());
    }
    stmt.loads = body.MakeLoads(&tree_->reads);
    stmt.otherwise_loads = otherwise.MakeLoads(&tree_->reads);
    Bind(body, stmt.target.get());
    BindAll(body, stmt.bodies[0]);
    BindAll(otherwise, stmt.otherwise);
    --loops_;
    stmt.slots = own.slots;
  }
  void BindMacro(const Scope& scope, MacroDef* macro, int line) {
    Frame frame{scope.frame()->depth + 1, 0};
    Scope inner(&scope, &frame);
    bool default_caller = true;
    std::set<std::string> given;
    for (const MacroDef::Param& param : macro->params) {
      inner.Parameter(param.name);
      given.insert(param.name);
      if (param.name == "caller") default_caller = param.fallback != nullptr;
    }
    for (const MacroDef::Param& param : macro->params) Analyze(&inner, param.fallback.get());
    Analyze(&inner, macro->body);
    const std::set<std::string> special = Undeclared(macro->body, {"caller", "kwargs", "varargs"});
    macro->explicit_caller = given.contains("caller");
    macro->uses_caller = special.contains("caller");
    macro->uses_kwargs = special.contains("kwargs") && !given.contains("kwargs");
    macro->uses_varargs = special.contains("varargs") && !given.contains("varargs");
    if (macro->uses_caller && !default_caller) {
      FailAt(line, "the parameter 'caller' needs a default");
    }
    if (macro->uses_caller) macro->caller_slot = inner.Parameter("caller");
    if (macro->uses_kwargs) macro->kwargs_slot = inner.Parameter("kwargs");
    if (macro->uses_varargs) macro->varargs_slot = inner.Parameter("varargs");
    macro->loads = inner.MakeLoads(&tree_->reads);
    const int loops = loops_;
    for (MacroDef::Param& param : macro->params) {
      loops_ = 0;  // a parameter may be called loop
      Bind(inner, param.target.get());
      loops_ = loops;
      Bind(inner, param.fallback.get());
    }
    BindAll(inner, macro->body);
    macro->slots = frame.slots;
  }

  Template* tree_;
  size_t work_ = 0;
  int loops_ = 0;
  int stmt_line_ = 0;
};

}  // namespace

void BindVariables(Template* tree) {
  CheckNames(*tree);
  Binder(tree).Run();
}

}  // namespace penstock::chat::jinja
