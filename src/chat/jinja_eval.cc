// Expressions.
#include <algorithm>

#include "chat/jinja_builtins.h"
#include "chat/jinja_interp.h"

namespace penstock::chat::jinja {

Value Interp::Eval(const Expr& expr) {
  Step();
  switch (expr.kind) {
    case ExprKind::kConst:
      return expr.constant;
    case ExprKind::kName:
      return EvalName(expr);
    default:
      break;
  }
  const Deeper deeper(*this);
  switch (expr.kind) {
    case ExprKind::kTuple:
    case ExprKind::kList:
      return EvalList(expr);
    case ExprKind::kDict:
      return EvalDict(expr);
    case ExprKind::kCond:
    case ExprKind::kOr:
    case ExprKind::kAnd:
    case ExprKind::kNot:
      return EvalLogic(expr);
    case ExprKind::kCompare:
      return EvalCompare(expr);
    case ExprKind::kConcat:
      return EvalConcat(expr);
    case ExprKind::kNeg: {
      const Value value = Eval(*expr.kids[0]);
      line_ = expr.line;
      return Negate(value);
    }
    case ExprKind::kPos: {
      Value value = Eval(*expr.kids[0]);
      line_ = expr.line;
      if (value.is(Kind::kBool)) return Value::Int(value.integer());
      if (!value.is_number()) Fail("the operand of + must be a number");
      return value;
    }
    case ExprKind::kAttribute: {
      const Value object = Eval(*expr.kids[0]);
      line_ = expr.line;
      return Attribute(object, Value::Borrowed(expr.text));
    }
    case ExprKind::kItem: {
      const Value object = Eval(*expr.kids[0]);
      const Value key = Eval(*expr.kids[1]);
      line_ = expr.line;
      return Item(object, key);
    }
    case ExprKind::kSlice:
      return EvalSlice(expr);
    case ExprKind::kCall:
      return EvalCall(expr, nullptr);
    case ExprKind::kFilter:
      return EvalFilter(expr, nullptr);
    case ExprKind::kTest:
      return EvalTest(expr);
    default:
      return EvalBinary(expr);
  }
}

Value Interp::EvalName(const Expr& expr) {
  const Value& value = At(expr.slot);
  return value.is_missing() ? Value::Undefined(expr.text) : value;
}

Value Interp::EvalBinary(const Expr& expr) {
  const Value a = Eval(*expr.kids[0]);
  const Value b = Eval(*expr.kids[1]);
  line_ = expr.line;
  return Binary(expr.kind, a, b);
}

Value Interp::EvalLogic(const Expr& expr) {
  Value first = Eval(*expr.kids[0]);
  switch (expr.kind) {
    case ExprKind::kNot:
      return Value::Bool(!Truth(first));
    case ExprKind::kOr:
      return Truth(first) ? first : Eval(*expr.kids[1]);
    case ExprKind::kAnd:
      return Truth(first) ? Eval(*expr.kids[1]) : first;
    default:
      if (Truth(first)) return Eval(*expr.kids[1]);
      return expr.kids.size() > 2 ? Eval(*expr.kids[2]) : Value::Undefined("the inline if");
  }
}

bool Interp::CompareOnce(CompareOp op, const Value& a, const Value& b) {
  switch (op) {
    case CompareOp::kEq:
      return Equal(a, b);
    case CompareOp::kNe:
      return !Equal(a, b);
    case CompareOp::kLt:
      return Less(a, b);
    case CompareOp::kLe:
      return Less(a, b, true);
    case CompareOp::kGt:
      return Less(b, a);
    case CompareOp::kGe:
      return Less(b, a, true);
    case CompareOp::kIn:
      return Contains(b, a);
    case CompareOp::kNotIn:
      return !Contains(b, a);
  }
  return false;
}

Value Interp::EvalCompare(const Expr& expr) {
  Value left = Eval(*expr.kids[0]);
  for (size_t i = 0; i < expr.ops.size(); ++i) {
    Value right = Eval(*expr.kids[i + 1]);
    line_ = expr.line;
    if (!CompareOnce(expr.ops[i], left, right)) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

Value Interp::EvalList(const Expr& expr) {
  ListBuilder items(heap_);
  for (const ExprPtr& kid : expr.kids) items.Add(Eval(*kid));
  return items.Done(expr.kind == ExprKind::kList ? Kind::kList : Kind::kTuple);
}

Value Interp::EvalDict(const Expr& expr) {
  Value dict = NewDict();
  for (size_t i = 0; i < expr.kids.size(); i += 2) {
    const Value key = Eval(*expr.kids[i]);
    dict.as<DictObject>().Set(*this, key, Eval(*expr.kids[i + 1]));
  }
  return dict;
}

Value Interp::EvalConcat(const Expr& expr) {
  ListBuilder parts(heap_);
  for (const ExprPtr& kid : expr.kids) parts.Add(Eval(*kid));
  TextBuilder text(heap_);
  for (const Value& part : parts.items()) AppendStr(part, &text);
  return text.Done();
}

Value Interp::EvalSlice(const Expr& expr) {
  const Value object = Eval(*expr.kids[0]);
  Value parts[3];
  for (int i = 0; i < 3; ++i) {
    parts[i] = expr.kids[i + 1] == nullptr ? Value::None() : Eval(*expr.kids[i + 1]);
  }
  line_ = expr.line;
  return Slice(object, parts[0], parts[1], parts[2]);
}

void Interp::EvalArgs(const CallArgs& call, Args* args, ScopedBytes* held) {
  // Larger places count beside those before.
  const auto add = [&](auto* to, auto item) {
    if (to->size() == to->capacity()) {
      const size_t grown = std::max<size_t>(2 * to->size(), 1);
      held->Add(HeapBytes(grown * sizeof item));
      to->reserve(grown);
    }
    to->push_back(std::move(item));
  };
  for (const ExprPtr& argument : call.positional) add(&args->positional, Eval(*argument));
  const Value star = call.star == nullptr ? Value() : Eval(*call.star);
  if (call.star != nullptr) {
    Walker walker(*this, star);
    for (Value item; walker.Next(&item);) add(&args->positional, std::move(item));
  }
  for (const auto& [name, value] : call.named) {
    add(&args->named, std::pair(Value::Borrowed(name), Eval(*value)));
  }
  if (call.star_star == nullptr) return;
  const Value more = Eval(*call.star_star);
  if (!more.is_dict()) Fail("what follows ** must be a dict");
  for (const auto& [name, value] : more.as<DictObject>().entries) {
    if (!name.is_string()) Fail("keywords must be strings");
    Step(args->named.size());
    if (args->Named(name.text()) != nullptr) Fail("an argument is given twice");
    add(&args->named, std::pair(name, value));
  }
}

Value Interp::EvalCall(const Expr& expr, const Value* caller) {
  const Value function = Eval(*expr.kids[0]);
  ScopedBytes held(heap_);
  Args args;
  EvalArgs(*expr.call, &args, &held);
  if (caller != nullptr) {
    if (args.Named("caller") != nullptr) Fail("the argument 'caller' is given twice");
    args.named.emplace_back(Value::Borrowed("caller"), *caller);
  }
  line_ = expr.line;
  return Call(function, args);
}

// `block`: the text of the block that the filter ends.
Value Interp::EvalFilter(const Expr& expr, const Value* block) {
  Value input;
  if (expr.kids.empty()) {
    input = *block;
  } else if (block != nullptr) {
    const Deeper deeper(*this);
    input = EvalFilter(*expr.kids[0], block);
  } else {
    input = Eval(*expr.kids[0]);
  }
  ScopedBytes held(heap_);
  Args args;
  EvalArgs(*expr.call, &args, &held);
  line_ = expr.line;
  if (expr.filter == nullptr) Fail("filter '" + expr.text + "' is not known");
  return expr.filter->function(*this, input, args);
}

Value Interp::EvalTest(const Expr& expr) {
  const Value input = Eval(*expr.kids[0]);
  ScopedBytes held(heap_);
  Args args;
  EvalArgs(*expr.call, &args, &held);
  line_ = expr.line;
  if (expr.test == nullptr) Fail("test '" + expr.text + "' is not known");
  return Value::Bool(expr.test->function(*this, input, args));
}

Value Interp::Call(const Value& function, const Args& args) {
  const Deeper deeper(*this);
  switch (function.kind()) {
    case Kind::kFunction:
      return function.as<FunctionObject>().function(*this, function.as<FunctionObject>().self,
                                                    args);
    case Kind::kMacro:
      return CallMacro(function, args);
    case Kind::kJoiner: {
      args.Bind("joiner", {}, 0, nullptr);
      JoinerObject& joiner = function.as<JoinerObject>();
      if (joiner.used) return joiner.separator;
      joiner.used = true;
      return Value::Borrowed("");
    }
    case Kind::kLoop: {
      Value iterable;
      args.Bind("loop", {"iterable"}, 1, &iterable);
      const LoopObject& loop = function.as<LoopObject>();
      if (!loop.loop->recursive) Fail("the loop is called, but it is not marked 'recursive'");
      const Value above = loop.activation.as<Activation>().parent;
      return RunRecursive(*loop.loop, above, iterable, loop.depth0 + 1);
    }
    case Kind::kUndefined:
      Fail("'" + Shown(function.text()) + "' is undefined, and is called");
    default:
      Fail("what is called is not a function");
  }
}

void Args::Bind(std::string_view function, std::initializer_list<std::string_view> names,
                size_t required, Value* out) const {
  const auto fail = [&](const std::string& what) { Fail(std::string(function) + ": " + what); };
  if (positional.size() > names.size()) fail("too many arguments");
  for (size_t i = 0; i < positional.size(); ++i) out[i] = positional[i];
  for (const auto& [name, value] : named) {
    size_t place = 0;
    for (const std::string_view known : names) {
      if (known == name.text()) break;
      ++place;
    }
    if (place == names.size()) fail("unknown argument '" + Shown(name.text()) + "'");
    if (place < positional.size()) {
      fail("argument '" + Shown(name.text()) + "' is given twice");
    }
    out[place] = value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (out[i].is_missing()) fail("argument '" + std::string(names.begin()[i]) + "' is missing");
  }
}

const Value* Args::Named(std::string_view name) const {
  for (const auto& entry : named) {
    if (entry.first.text() == name) return &entry.second;
  }
  return nullptr;
}

Value Interp::CallFilter(const Value& name, const Value& input, const Args& args) {
  const Deeper deeper(*this);  // map('map', 'map', ...)
  const Filter* filter = name.is_string() ? FindFilter(name.text()) : nullptr;
  if (filter == nullptr) {
    Fail(name.is_string() ? "filter '" + Shown(name.text()) + "' is not known"
                          : "the name of a filter must be a string");
  }
  return filter->function(*this, input, args);
}

bool Interp::CallTest(const Value& name, const Value& input, const Args& args) {
  const Test* test = name.is_string() ? FindTest(name.text()) : nullptr;
  if (test == nullptr) {
    Fail(name.is_string() ? "test '" + Shown(name.text()) + "' is not known"
                          : "the name of a test must be a string");
  }
  return test->function(*this, input, args);
}

Value Interp::NewFunction(std::string_view name, Function function, Value self) {
  return Value(Kind::kFunction, heap_.New<FunctionObject>(name, function, std::move(self)));
}

}  // namespace penstock::chat::jinja
