// Statements, and what they call: macros and loops.
#include <optional>

#include "chat/jinja_builtins.h"
#include "chat/jinja_interp.h"
#include "threads/request_context.h"

namespace penstock::chat::jinja {

// Output goes to a text of its own while it lives.
class Interp::Capture {
 public:
  explicit Capture(Interp& interp)
      : interp_(interp), outer_(interp.out_), before_(interp.out_bytes_), text_(interp.heap()) {
    interp.out_ = &text_;
  }
  ~Capture() {
    interp_.out_ = outer_;
    interp_.out_bytes_ = before_;
  }
  Value Take() { return interp_.Text(text_.Take()); }

 private:
  Interp& interp_;
  GrowingText* outer_;
  const size_t before_;
  GrowingText text_;
};

namespace {

// Variables of another place, until the end of the block.
class Swapped {
 public:
  Swapped(Value* place, Value value) : place_(place), kept_(std::move(*place)) {
    *place = std::move(value);
  }
  ~Swapped() { *place_ = std::move(kept_); }

 private:
  Value* place_;
  Value kept_;
};

}  // namespace

Interp::Interp(const Template& tree, const Limits& limits, Clock::time_point now,
               const RequestContext* request)
    : tree_(tree),
      heap_(limits, request == nullptr ? nullptr : request->memory.get()),
      now_(now),
      request_(request) {}

void Interp::CheckWanted() {
  if (request_ == nullptr) return;
  Status wanted = request_->CheckWanted(penstock::Clock::now());
  if (!wanted.ok()) FailRequest(std::move(wanted));
}

std::string Interp::Render() {
  GrowingText out(heap_);
  out_ = &out;
  heap_.CheckMemory(tree_.slots * sizeof(Value));
  root_ = Value(Kind::kActivation, heap_.New<Activation>(tree_.slots, Value()));
  heap_.Charge(root_.object(), tree_.slots * sizeof(Value));
  activation_ = root_;
  Enter(tree_.loads);
  Exec(tree_.body);
  return out.Take();
}

void Interp::FailDepth() {
  FailLimit("more than " + std::to_string(heap_.limits().depth) + " levels of evaluation");
}

Value& Interp::At(Slot slot) {
  Activation* activation = &activation_.as<Activation>();
  for (uint32_t i = 0; i < slot.up; ++i) activation = &activation->parent.as<Activation>();
  return activation->values[slot.index];
}

Value Interp::Resolve(const std::string& name) {
  const auto it = context_.find(name);
  if (it != context_.end()) return it->second;
  const Named* global = FindGlobal(name);
  return global == nullptr ? Value() : NewFunction(global->name, global->function);
}

void Interp::Enter(const Loads& loads) {
  Activation& activation = activation_.as<Activation>();
  for (const Load& load : loads) {
    Step();
    switch (load.action) {
      case Load::Action::kContext:
        activation.values[load.to] = Resolve(load.name);
        break;
      case Load::Action::kCopy:
        activation.values[load.to] = At(load.from);
        break;
      case Load::Action::kClear:
        activation.values[load.to] = Value();
        break;
    }
  }
}

void Interp::Emit(std::string_view text) {
  if (text.size() > heap_.limits().output_bytes - out_bytes_) {
    FailLimit("the text is longer than " + std::to_string(heap_.limits().output_bytes) + " bytes");
  }
  heap_.StepBytes(text.size());
  out_bytes_ += text.size();
  out_->Add(text);
}

void Interp::EmitValue(const Value& value) {
  if (value.is_string()) return Emit(value.text());
  TextBuilder text(heap_);
  AppendStr(value, &text);
  Emit(text.view());
}

void Interp::EmitText(const Value& value) {
  if (!value.is_string()) Fail("a block's value must be a string");
  Emit(value.text());
}

Flow Interp::Exec(const Body& body) {
  for (const StmtPtr& stmt : body) {
    const Flow flow = ExecOne(*stmt);
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Flow Interp::ExecOne(const Stmt& stmt) {
  Step();
  line_ = stmt.line;
  switch (stmt.kind) {
    case StmtKind::kData:
      Emit(stmt.text);
      return Flow::kNext;
    case StmtKind::kOutput:
      for (const ExprPtr& expr : stmt.exprs) EmitValue(Eval(*expr));
      return Flow::kNext;
    case StmtKind::kSet:
      ExecSet(stmt);
      return Flow::kNext;
    case StmtKind::kMacro:
      Assign(*stmt.target,
             Value(Kind::kMacro, heap_.New<MacroObject>(stmt.macro.get(), activation_)));
      return Flow::kNext;
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
    default:
      break;
  }
  const Deeper deeper(*this);
  switch (stmt.kind) {
    case StmtKind::kSetBlock:
      return ExecSetBlock(stmt);
    case StmtKind::kFor:
      return ExecFor(stmt);
    case StmtKind::kIf:
      return ExecIf(stmt);
    case StmtKind::kFilterBlock:
      return ExecFilterBlock(stmt);
    case StmtKind::kScope:
      return ExecScope(stmt);
    default:
      ExecCallBlock(stmt);
      return Flow::kNext;
  }
}

Flow Interp::ExecIf(const Stmt& stmt) {
  for (size_t i = 0; i < stmt.exprs.size(); ++i) {
    if (Truth(Eval(*stmt.exprs[i]))) return Exec(stmt.bodies[i]);
  }
  return Exec(stmt.otherwise);
}

Flow Interp::ExecScope(const Stmt& stmt) {
  Enter(stmt.loads);
  for (size_t i = 0; i < stmt.targets.size(); ++i) {
    Assign(*stmt.targets[i], Eval(*stmt.exprs[i]));
  }
  return Exec(stmt.bodies[0]);
}

// ---- Assignments

void Interp::CheckNamespaces(const Expr& target) {
  if (target.kind == ExprKind::kNamespaceRef && !At(target.slot).is(Kind::kNamespace)) {
    Fail("'" + target.text + "' is not a namespace, so its attributes cannot be set");
  }
  for (const ExprPtr& kid : target.kids) CheckNamespaces(*kid);
}

void Interp::ExecSet(const Stmt& stmt) {
  CheckNamespaces(*stmt.target);
  const Value value = Eval(*stmt.value);
  line_ = stmt.line;
  Assign(*stmt.target, value);
}

void Interp::Assign(const Expr& target, const Value& value) {
  if (target.kind == ExprKind::kName) {
    At(target.slot) = value;
    return;
  }
  if (target.kind == ExprKind::kNamespaceRef) {
    const std::string& name = target.kids[0]->text;
    if (!At(target.slot).is(Kind::kNamespace)) Fail("'" + target.text + "' is not a namespace");
    if (name.starts_with('_')) Fail("attributes of a namespace may not begin with '_'");
    const Value attributes = At(target.slot).as<NamespaceObject>().attributes;
    attributes.as<DictObject>().Set(*this, Value::Borrowed(name), value);
    return;
  }
  const Deeper deeper(*this);
  const size_t wanted = target.kids.size();
  std::vector<Value> items;
  Walker walker(*this, value);
  for (Value item; items.size() <= wanted && walker.Next(&item);) items.push_back(item);
  if (items.size() != wanted) {
    Fail("cannot unpack: " + std::to_string(wanted) + " values are expected" +
         (items.size() > wanted ? "" : ", there are " + std::to_string(items.size())));
  }
  for (size_t i = 0; i < wanted; ++i) Assign(*target.kids[i], items[i]);
}

Flow Interp::ExecSetBlock(const Stmt& stmt) {
  Enter(stmt.loads);
  Value text;
  {
    Capture capture(*this);
    const Flow flow = Exec(stmt.bodies[0]);
    if (flow != Flow::kNext) return flow;  // what was written is lost, as in jinja2
    text = capture.Take();
  }
  if (stmt.value != nullptr) text = EvalFilter(*stmt.value, &text);
  if (stmt.target->kind == ExprKind::kNamespaceRef) CheckNamespaces(*stmt.target);
  Assign(*stmt.target, text);
  return Flow::kNext;
}

Flow Interp::ExecFilterBlock(const Stmt& stmt) {
  Enter(stmt.loads);
  Value text;
  {
    Capture capture(*this);
    const Flow flow = Exec(stmt.bodies[0]);
    if (flow != Flow::kNext) return flow;
    text = capture.Take();
  }
  EmitText(EvalFilter(*stmt.value, &text));
  return Flow::kNext;
}

// ---- Loops

Flow Interp::ExecFor(const Stmt& stmt) {
  Value iterable = Eval(*stmt.value);
  line_ = stmt.line;
  if (!stmt.recursive) return RunFor(stmt, iterable, 0);
  EmitValue(RunRecursive(stmt, activation_, std::move(iterable), 0));
  return Flow::kNext;
}

Value Interp::RunRecursive(const Stmt& loop, const Value& parent, Value iterable, int64_t depth) {
  const Deeper deeper(*this);
  Value own(Kind::kActivation, heap_.New<Activation>(loop.slots, parent));
  heap_.Charge(own.object(), loop.slots * sizeof(Value));
  Capture capture(*this);
  const Swapped swapped(&activation_, own);
  RunFor(loop, iterable, depth);
  return capture.Take();
}

Flow Interp::RunFor(const Stmt& stmt, const Value& iterable, int64_t depth0) {
  std::optional<LoopSource> source;
  Value object;
  if (stmt.extended) {
    object = Value(Kind::kLoop, heap_.New<LoopObject>(*this, iterable, stmt, activation_, depth0));
  } else {
    source.emplace(*this, iterable, stmt, &activation_.as<Activation>());
  }
  bool any = false;  // a pass came to its end; as in jinja2, break and continue do not count
  Value item;
  while (true) {
    Step();
    if (stmt.extended) {
      LoopObject& loop = object.as<LoopObject>();
      if (!loop.Next()) break;
      item = loop.current;
      activation_.as<Activation>().values[stmt.loop_slot] = object;
    } else if (!source->Next(&item)) {
      break;
    }
    Assign(*stmt.target, item);
    Enter(stmt.loads);
    const Flow flow = Exec(stmt.bodies[0]);
    if (flow == Flow::kBreak) break;
    if (flow == Flow::kNext) any = true;
  }
  if (any || stmt.otherwise.empty()) return Flow::kNext;
  Enter(stmt.otherwise_loads);
  return Exec(stmt.otherwise);
}

bool Interp::TestItem(const Stmt& loop, Activation* activation, const Value& item) {
  const Deeper deeper(*this);
  const Swapped swapped(&activation_, Value(Kind::kActivation, activation));
  Enter(loop.test_loads);
  Assign(*loop.test_target, item);
  return Truth(Eval(*loop.test));
}

bool LoopSource::Next(Value* item) {
  while (walker_.Next(item)) {
    if (loop_->test == nullptr || interp_->TestItem(*loop_, activation_, *item)) return true;
  }
  return false;
}

int64_t LoopSource::Length() const {
  if (loop_->test != nullptr || !interp_->HasLength(walker_.source())) return -1;
  return interp_->Length(walker_.source());
}

LoopObject::LoopObject(Interp& in, Value from, const Stmt& given, const Value& where, int64_t level)
    : interp(&in),
      loop(&given),
      activation(where),
      source(in, std::move(from), given, &where.as<Activation>()),
      depth0(level) {}

void LoopObject::Clear() {
  activation = before = current = after = changed = Value();
  source.Clear();
  drained.clear();
}

const Value& LoopObject::Peek() {
  if (!after.is_missing() || ended) return after;
  if (draining) {
    if (drained_at < drained.size()) {
      after = drained[drained_at++];
    } else {
      ended = true;
    }
  } else if (!source.Next(&after)) {
    ended = true;
    after = Value();
  }
  return after;
}

bool LoopObject::Next() {
  if (Peek().is_missing()) return false;
  ++index0;
  before = std::move(current);
  current = std::move(after);
  after = Value();
  return true;
}

int64_t LoopObject::Length() {
  if (length >= 0) return length;
  length = draining ? -1 : source.Length();
  if (length >= 0) return length;
  ListBuilder rest(interp->heap());
  for (Value item; source.Next(&item);) rest.Add(std::move(item));
  drained = rest.Take();
  interp->heap().Charge(this, HeapBytes(drained.capacity() * sizeof(Value)));
  draining = true;
  length = static_cast<int64_t>(drained.size()) + index0 + 1 + !after.is_missing();
  return length;
}

// ---- Macros

void Interp::ExecCallBlock(const Stmt& stmt) {
  const Value caller(Kind::kMacro, heap_.New<MacroObject>(stmt.macro.get(), activation_));
  EmitText(EvalCall(*stmt.value, &caller));
}

// Sorts the arguments as jinja2's Macro does.
Value Interp::CallMacro(const Value& function, const Args& args) {
  const MacroObject& macro = function.as<MacroObject>();
  const MacroDef& def = *macro.def;
  const size_t count = def.params.size();
  // Memory of the arguments, and of a copy of those with names.
  const ScopedBytes held(heap_, HeapBytes(2 * count * sizeof(Value)) +
                                    HeapBytes(args.named.size() * sizeof(args.named[0])));
  std::vector<Value> arguments(args.positional.begin(),
                               args.positional.begin() + std::min(count, args.positional.size()));
  auto named = args.named;
  const auto take = [&](std::string_view name) {
    for (auto it = named.begin(); it != named.end(); ++it) {
      if (it->first.text() != name) continue;
      Value value = std::move(it->second);
      named.erase(it);
      return value;
    }
    return Value();
  };
  bool found_caller = arguments.size() == count && def.explicit_caller;
  while (arguments.size() < count) {
    const std::string& name = def.params[arguments.size()].name;
    found_caller |= name == "caller";
    arguments.push_back(take(name));
  }
  Value caller, kwargs, varargs;
  if (def.uses_caller && !found_caller) {
    caller = take("caller");
    if (caller.is_missing() || caller.is_none()) caller = Value::Undefined("caller");
  }
  if (def.uses_kwargs) {
    kwargs = NewDict();
    for (const auto& [name, value] : named) kwargs.as<DictObject>().Set(*this, name, value);
  } else if (!named.empty()) {
    Fail("macro '" + def.name + "' has no parameter '" + Shown(named[0].first.text()) + "'");
  }
  if (def.uses_varargs) {
    ListBuilder rest(heap_);
    for (size_t i = count; i < args.positional.size(); ++i) rest.Add(args.positional[i]);
    varargs = rest.Done(Kind::kTuple);
  } else if (args.positional.size() > count) {
    Fail("macro '" + def.name + "' takes at most " + std::to_string(count) + " arguments");
  }
  return RunMacro(macro, std::move(arguments), std::move(caller), std::move(kwargs),
                  std::move(varargs));
}

Value Interp::RunMacro(const MacroObject& macro, std::vector<Value> arguments, Value caller,
                       Value kwargs, Value varargs) {
  const MacroDef& def = *macro.def;
  const Value own(Kind::kActivation, heap_.New<Activation>(def.slots, macro.closure));
  heap_.Charge(own.object(), def.slots * sizeof(Value));
  Activation& activation = own.as<Activation>();
  Capture capture(*this);
  const Swapped swapped(&activation_, own);
  for (size_t i = 0; i < arguments.size(); ++i) {
    activation.values[def.params[i].target->slot.index] = std::move(arguments[i]);
  }
  if (!caller.is_missing()) activation.values[def.caller_slot] = std::move(caller);
  if (def.uses_kwargs) activation.values[def.kwargs_slot] = std::move(kwargs);
  if (def.uses_varargs) activation.values[def.varargs_slot] = std::move(varargs);
  Enter(def.loads);
  for (const MacroDef::Param& param : def.params) {
    Value& value = activation.values[param.target->slot.index];
    if (!value.is_missing()) continue;
    Value fallback =
        param.fallback == nullptr ? Value::Undefined(param.name) : Eval(*param.fallback);
    activation.values[param.target->slot.index] = std::move(fallback);
  }
  Exec(def.body);
  return capture.Take();
}

}  // namespace penstock::chat::jinja
