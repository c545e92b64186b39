// Tests: what stands behind `is`.
#include "chat/jinja_builtins.h"

namespace penstock::chat::jinja {
namespace {

void None(const Args& args) {
  if (!args.empty()) Fail("a test without parameters is called with arguments");
}

Value One(const Args& args) {
  Value value;
  args.Bind("a test", {"other"}, 1, &value);
  return value;
}

// Modulo 2 of what is not a number fails, as it does in Python.
template <int64_t rest>
bool Parity(Interp& interp, const Value& input, const Args& args) {
  None(args);
  const Value left = interp.Binary(ExprKind::kMod, input, Value::Int(2));
  return interp.Equal(left, Value::Int(rest));
}

bool DivisibleBy(Interp& interp, const Value& input, const Args& args) {
  Value by;
  args.Bind("divisibleby", {"num"}, 1, &by);
  return interp.Equal(interp.Binary(ExprKind::kMod, input, by), Value::Int(0));
}

template <auto is>
bool Is(Interp& interp, const Value& input, const Args& args) {
  None(args);
  return is(interp, input);
}

template <Kind kind>
bool HasKind(Interp&, const Value& value) {
  return value.is(kind);
}
bool IsDefined(Interp&, const Value& value) { return !value.is_undefined(); }
bool IsTrue(Interp&, const Value& value) { return value.is(Kind::kBool) && value.integer() != 0; }
bool IsFalse(Interp&, const Value& value) { return value.is(Kind::kBool) && value.integer() == 0; }
bool IsNumber(Interp&, const Value& value) { return value.is_number(); }
bool IsEscaped(Interp&, const Value& value) { return value.is_markup(); }
bool IsIterable(Interp& interp, const Value& value) {
  return interp.IsIterable(value) || value.is(Kind::kLoop);
}
bool IsLower(Interp& interp, const Value& value) {
  return HasCase(interp.Str(value).text(), false);
}
bool IsUpper(Interp& interp, const Value& value) { return HasCase(interp.Str(value).text(), true); }
bool IsFilter(Interp&, const Value& value) {
  return value.is_string() && FindFilter(value.text()) != nullptr;
}
bool IsTest(Interp&, const Value& value) {
  return value.is_string() && FindTest(value.text()) != nullptr;
}
bool IsCallable(Interp&, const Value& value) {
  switch (value.kind()) {
    case Kind::kFunction:
    case Kind::kMacro:
    case Kind::kJoiner:
    case Kind::kLoop:
    case Kind::kUndefined:  // its class has __call__
      return true;
    default:
      return false;
  }
}
bool IsSequence(Interp&, const Value& value) {
  switch (value.kind()) {
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kRange:
    case Kind::kUndefined:
      return true;
    default:
      return false;
  }
}

bool SameAs(Interp& interp, const Value& input, const Args& args) {
  const Value other = One(args);
  if (input.kind() != other.kind()) return false;
  if (input.object() != nullptr || other.object() != nullptr) {
    return input.object() == other.object() && (!input.is_string() || input.text() == other.text());
  }
  return !input.is_undefined() && interp.Equal(input, other);
}

bool In(Interp& interp, const Value& input, const Args& args) {
  Value seq;
  args.Bind("in", {"seq"}, 1, &seq);
  return interp.Contains(seq, input);
}

bool Equal(Interp& interp, const Value& input, const Args& args) {
  return interp.Equal(input, One(args));
}
bool NotEqual(Interp& interp, const Value& input, const Args& args) {
  return !interp.Equal(input, One(args));
}
template <bool swapped, bool or_equal>
bool Compare(Interp& interp, const Value& input, const Args& args) {
  const Value other = One(args);
  return swapped ? interp.Less(other, input, or_equal) : interp.Less(input, other, or_equal);
}

constexpr Test kTests[] = {{"boolean", Is<HasKind<Kind::kBool>>},
                           {"callable", Is<IsCallable>},
                           {"defined", Is<IsDefined>},
                           {"divisibleby", DivisibleBy},
                           {"eq", Equal},
                           {"==", Equal},
                           {"equalto", Equal},
                           {"escaped", Is<IsEscaped>},
                           {"even", Parity<0>},
                           {"false", Is<IsFalse>},
                           {"filter", Is<IsFilter>},
                           {"float", Is<HasKind<Kind::kFloat>>},
                           {"ge", Compare<true, true>},
                           {">=", Compare<true, true>},
                           {"greaterthan", Compare<true, false>},
                           {"gt", Compare<true, false>},
                           {">", Compare<true, false>},
                           {"in", In},
                           {"integer", Is<HasKind<Kind::kInt>>},
                           {"iterable", Is<IsIterable>},
                           {"le", Compare<false, true>},
                           {"<=", Compare<false, true>},
                           {"lessthan", Compare<false, false>},
                           {"lower", Is<IsLower>},
                           {"lt", Compare<false, false>},
                           {"<", Compare<false, false>},
                           {"mapping", Is<HasKind<Kind::kDict>>},
                           {"ne", NotEqual},
                           {"!=", NotEqual},
                           {"none", Is<HasKind<Kind::kNone>>},
                           {"number", Is<IsNumber>},
                           {"odd", Parity<1>},
                           {"sameas", SameAs},
                           {"sequence", Is<IsSequence>},
                           {"string", Is<HasKind<Kind::kString>>},
                           {"test", Is<IsTest>},
                           {"true", Is<IsTrue>},
                           {"undefined", Is<HasKind<Kind::kUndefined>>},
                           {"upper", Is<IsUpper>}};

}  // namespace

const Test* FindTest(std::string_view name) {
  for (const Test& test : kTests) {
    if (test.name == name) return &test;
  }
  return nullptr;
}

}  // namespace penstock::chat::jinja
