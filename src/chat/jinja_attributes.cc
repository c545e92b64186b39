// Attributes of values: names after a dot that are not items of a dict.
#include "chat/jinja_builtins.h"
#include "chat/jinja_interp.h"

namespace penstock::chat::jinja {
namespace {

Value LoopCycle(Interp&, const Value& self, const Args& args) {
  if (args.positional.empty() || !args.named.empty()) Fail("cycle: no items are given");
  const auto count = static_cast<int64_t>(args.positional.size());
  const int64_t index = self.as<LoopObject>().index0;
  return args.positional[((index % count) + count) % count];
}

Value LoopChanged(Interp& interp, const Value& self, const Args& args) {
  if (!args.named.empty()) Fail("changed: arguments have no names");
  interp.heap().CheckMemory(args.positional.size() * sizeof(Value));
  const Value now = interp.heap().Tuple(args.positional);
  LoopObject& loop = self.as<LoopObject>();
  if (!loop.changed.is_missing() && interp.Equal(loop.changed, now)) return Value::Bool(false);
  loop.changed = now;
  return Value::Bool(true);
}

Value LoopAttribute(Interp& interp, const Value& self, std::string_view name) {
  LoopObject& loop = self.as<LoopObject>();
  if (name == "index") return Value::Int(loop.index0 + 1);
  if (name == "index0") return Value::Int(loop.index0);
  if (name == "first") return Value::Bool(loop.index0 == 0);
  if (name == "last") return Value::Bool(loop.Peek().is_missing());
  if (name == "length") return Value::Int(loop.Length());
  if (name == "revindex") return Value::Int(loop.Length() - loop.index0);
  if (name == "revindex0") return Value::Int(loop.Length() - loop.index0 - 1);
  if (name == "depth") return Value::Int(loop.depth0 + 1);
  if (name == "depth0") return Value::Int(loop.depth0);
  if (name == "previtem") {
    return loop.index0 == 0 ? Value::Undefined("previtem") : loop.before;
  }
  if (name == "nextitem") {
    const Value& next = loop.Peek();
    return next.is_missing() ? Value::Undefined("nextitem") : next;
  }
  if (name == "cycle") return interp.NewFunction("cycle", LoopCycle, self);
  if (name == "changed") return interp.NewFunction("changed", LoopChanged, self);
  return Value();
}

Value CyclerNext(Interp&, const Value& self, const Args& args) {
  args.Bind("next", {}, 0, nullptr);
  CyclerObject& cycler = self.as<CyclerObject>();
  Value item = cycler.items[cycler.at];
  cycler.at = (cycler.at + 1) % cycler.items.size();
  return item;
}

Value CyclerReset(Interp&, const Value& self, const Args& args) {
  args.Bind("reset", {}, 0, nullptr);
  self.as<CyclerObject>().at = 0;
  return Value::None();
}

Value CyclerAttribute(Interp& interp, const Value& self, std::string_view name) {
  const CyclerObject& cycler = self.as<CyclerObject>();
  if (name == "current") return cycler.items[cycler.at];
  if (name == "items") {
    interp.heap().CheckMemory(cycler.items.size() * sizeof(Value));
    return interp.heap().Tuple(cycler.items);
  }
  if (name == "pos") return Value::Int(static_cast<int64_t>(cycler.at));
  if (name == "next") return interp.NewFunction("next", CyclerNext, self);
  if (name == "reset") return interp.NewFunction("reset", CyclerReset, self);
  return Value();
}

Value MacroAttribute(Interp& interp, const Value& self, std::string_view name) {
  const MacroDef& def = *self.as<MacroObject>().def;
  if (name == "name") return def.name.empty() ? Value::None() : Value::Borrowed(def.name);
  if (name == "caller") return Value::Bool(def.uses_caller);
  if (name == "catch_kwargs") return Value::Bool(def.uses_kwargs);
  if (name == "catch_varargs") return Value::Bool(def.uses_varargs);
  if (name == "explicit_caller") return Value::Bool(def.explicit_caller);
  if (name != "arguments") return Value();
  ListBuilder names(interp.heap());
  for (const MacroDef::Param& param : def.params) names.Add(Value::Borrowed(param.name));
  return names.Done(Kind::kTuple);
}

Value DictFromKeys(Interp& interp, const Value&, const Args& args) {
  Value a[2];
  args.Bind("fromkeys", {"iterable", "value"}, 1, a);
  Value dict = interp.NewDict();
  Walker walker(interp, a[0]);
  for (Value key; walker.Next(&key);) {
    interp.Step();
    dict.as<DictObject>().Set(interp, key, a[1].is_missing() ? Value::None() : a[1]);
  }
  return dict;
}

}  // namespace

Value Interp::FindAttribute(const Value& object, const Value& given) {
  const std::string_view name = given.text();
  // Python's own; the sandbox hides them.
  if (name.starts_with("__") && name.ends_with("__")) return Value::Undefined(given);
  switch (object.kind()) {
    case Kind::kNamespace: {
      if (name.starts_with('_')) return Value();
      const Value attributes = object.as<NamespaceObject>().attributes;
      const Value* found = attributes.as<DictObject>().Find(name);
      return found == nullptr ? Value() : *found;
    }
    case Kind::kLoop:
      return LoopAttribute(*this, object, name);
    case Kind::kCycler:
      return CyclerAttribute(*this, object, name);
    case Kind::kMacro:
      return MacroAttribute(*this, object, name);
    case Kind::kRange: {
      const RangeObject& range = object.as<RangeObject>();
      if (name == "start") return Value::Int(range.start);
      if (name == "stop") return Value::Int(range.stop);
      return name == "step" ? Value::Int(range.step) : Value();
    }
    case Kind::kFunction:
      if (name == "fromkeys" && object.as<FunctionObject>().name == "dict") {
        return NewFunction("fromkeys", DictFromKeys);
      }
      return Value();
    case Kind::kTuple: {
      const ListObject& list = object.as<ListObject>();
      if (list.group && name == "grouper") return list.items[0];
      if (list.group && name == "list") return list.items[1];
      break;
    }
    case Kind::kInt:
    case Kind::kBool:
      if (name == "real" || name == "numerator") return Value::Int(object.integer());
      if (name == "imag") return Value::Int(0);
      return name == "denominator" ? Value::Int(1) : Value();
    case Kind::kFloat:
      if (name == "real") return object;
      return name == "imag" ? Value::Float(0) : Value();
    default:
      break;
  }
  if (IsHiddenMethod(object.kind(), name)) return Value::Undefined(given);
  const Named* method = FindMethod(object.kind(), name);
  return method == nullptr ? Value() : NewFunction(method->name, method->function, object);
}

}  // namespace penstock::chat::jinja
