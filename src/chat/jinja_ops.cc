// Arithmetic, access to parts of values, iteration.
#include <algorithm>
#include <cmath>

#include "chat/jinja_builtins.h"
#include "chat/jinja_interp.h"
#include "unicode/utf8.h"

namespace penstock::chat::jinja {
namespace {

[[noreturn]] void FailOverflow() { Fail("integers beyond 64 bits are not supported"); }

[[noreturn]] void FailOperands(const Value& a, const Value& b) {
  for (const Value* value : {&a, &b}) {
    if (value->is_undefined()) Fail("'" + Shown(value->text()) + "' is undefined");
  }
  Fail("the operands have types that do not go together");
}

Value IntPower(int64_t base, int64_t exponent) {
  int64_t result = 1;
  bool overflow = false;  // of a square that may not be needed any more
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0 && (overflow || __builtin_mul_overflow(result, base, &result))) {
      FailOverflow();
    }
    overflow |= __builtin_mul_overflow(base, base, &base);
  }
  return Value::Int(result);
}

Value Power(const Value& a, const Value& b) {
  if (a.is_int() && b.is_int() && b.integer() >= 0) {
    const int64_t base = a.integer();
    if (base == 0 || base == 1) return Value::Int(b.integer() == 0 ? 1 : base);
    if (base == -1) return Value::Int(b.integer() % 2 == 0 ? 1 : -1);
    if (b.integer() > 64) FailOverflow();
    return IntPower(base, b.integer());
  }
  const double x = a.real();
  const double y = b.real();
  if (x == 0 && y < 0) Fail("division by zero");
  if (x < 0 && std::isfinite(x) && std::isfinite(y) && y != std::floor(y)) {
    Fail("complex numbers are not supported");
  }
  const double result = std::pow(x, y);
  if (std::isinf(result) && std::isfinite(x) && std::isfinite(y)) Fail("a number is too large");
  return Value::Float(result);
}

// Both rounded towards minus infinity.
Value IntDivide(int64_t a, int64_t b, bool remainder) {
  if (b == 0) Fail("division by zero");
  if (b == -1) {
    if (remainder) return Value::Int(0);
    if (a == INT64_MIN) FailOverflow();
    return Value::Int(-a);
  }
  int64_t quotient = a / b;
  int64_t rest = a % b;
  if (rest != 0 && (rest < 0) != (b < 0)) {
    rest += b;
    --quotient;
  }
  return Value::Int(remainder ? rest : quotient);
}

Value FloatDivide(double a, double b, bool remainder) {
  if (b == 0) Fail("division by zero");
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0) {
    if ((b < 0) != (rest < 0)) {
      rest += b;
      quotient -= 1;
    }
  } else {
    rest = std::copysign(0.0, b);
  }
  if (remainder) return Value::Float(rest);
  if (quotient == 0) return Value::Float(std::copysign(0.0, a / b));
  const double whole = std::floor(quotient);
  return Value::Float(quotient - whole > 0.5 ? whole + 1 : whole);
}

Value Arithmetic(ExprKind op, const Value& a, const Value& b) {
  const bool whole = a.is_int() && b.is_int();
  int64_t result = 0;
  switch (op) {
    case ExprKind::kAdd:
      if (!whole) return Value::Float(a.real() + b.real());
      if (__builtin_add_overflow(a.integer(), b.integer(), &result)) FailOverflow();
      return Value::Int(result);
    case ExprKind::kSub:
      if (!whole) return Value::Float(a.real() - b.real());
      if (__builtin_sub_overflow(a.integer(), b.integer(), &result)) FailOverflow();
      return Value::Int(result);
    case ExprKind::kMul:
      if (!whole) return Value::Float(a.real() * b.real());
      if (__builtin_mul_overflow(a.integer(), b.integer(), &result)) FailOverflow();
      return Value::Int(result);
    case ExprKind::kDiv:
      if (b.real() == 0) Fail("division by zero");
      if (!whole) return Value::Float(a.real() / b.real());
      return Value::Float(static_cast<double>(static_cast<long double>(a.integer()) /
                                              static_cast<long double>(b.integer())));
    case ExprKind::kFloorDiv:
    case ExprKind::kMod:
      return whole ? IntDivide(a.integer(), b.integer(), op == ExprKind::kMod)
                   : FloatDivide(a.real(), b.real(), op == ExprKind::kMod);
    default:
      return Power(a, b);
  }
}

Value Repeat(Interp& interp, const Value& value, int64_t times) {
  const auto count = static_cast<size_t>(std::max<int64_t>(times, 0));
  if (value.is_string()) {
    const std::string_view text = value.text();
    if (!text.empty() && count > SIZE_MAX / text.size()) FailLimit("a text is too long");
    interp.heap().CheckMemory(count * text.size());
    const size_t bytes = count * text.size();
    std::string out;
    out.reserve(bytes);
    if (bytes > 0) out = text;
    while (out.size() < bytes) out.append(out, 0, std::min(out.size(), bytes - out.size()));
    Value result = interp.Text(std::move(out));
    return value.is_markup() ? std::move(result).AsMarkup() : result;
  }
  const std::vector<Value>& items = value.as<ListObject>().items;
  if (!items.empty() && count > SIZE_MAX / sizeof(Value) / items.size()) {
    FailLimit("a list is too long");
  }
  interp.heap().CheckMemory(count * items.size() * sizeof(Value));
  interp.Step(count * items.size());
  std::vector<Value> out;
  out.reserve(count * items.size());
  for (size_t i = 0; i < count && !items.empty(); ++i) {
    out.insert(out.end(), items.begin(), items.end());
  }
  return interp.heap().List(std::move(out), value.kind());
}

Value AddTexts(Interp& interp, const Value& a, const Value& b) {
  const bool markup = a.is_markup() || b.is_markup();
  const Value left = markup ? interp.Escape(a) : a;
  const Value right = markup ? interp.Escape(b) : b;
  const size_t bytes = left.text().size() + right.text().size();
  interp.heap().CheckMemory(bytes);
  std::string text;
  text.reserve(bytes);
  text.append(left.text()).append(right.text());
  Value sum = interp.Text(std::move(text));
  return markup ? std::move(sum).AsMarkup() : sum;
}

// The index of a Python sequence of `size` items; -1 if it lies outside.
int64_t Index(int64_t index, int64_t size) {
  if (index < 0) index += size;
  return index >= 0 && index < size ? index : -1;
}

// Bytes of `text` before its character `count`.
size_t ByteAt(std::string_view text, int64_t count) {
  size_t at = 0;
  for (; count > 0 && at < text.size(); --count) at += unicode::Utf8Length(text[at]);
  return at;
}

Value Character(Interp& interp, const Value& value, int64_t index) {
  const std::string_view text = value.text();
  interp.heap().StepBytes(text.size());
  const int64_t size = index < 0 ? interp.Length(value) : static_cast<int64_t>(text.size());
  index = Index(index, size);
  const size_t at = index < 0 ? text.size() : ByteAt(text, index);
  if (at >= text.size()) return Value();
  Value part = value.Part(text.substr(at, unicode::Utf8Length(text[at])));
  return value.is_markup() ? std::move(part).AsMarkup() : part;
}

// value[index]; missing where there is none.
Value ByIndex(Interp& interp, const Value& value, int64_t index) {
  switch (value.kind()) {
    case Kind::kString:
      return Character(interp, value, index);
    case Kind::kList:
    case Kind::kTuple: {
      const auto& items = value.as<ListObject>().items;
      index = Index(index, static_cast<int64_t>(items.size()));
      return index < 0 ? Value() : items[index];
    }
    case Kind::kRange: {
      const RangeObject& range = value.as<RangeObject>();
      index = Index(index, range.count);
      return index < 0 ? Value() : Value::Int(range.start + index * range.step);
    }
    default:
      return Value();
  }
}

struct SliceBounds {
  int64_t start, step, count;
};

int64_t SlicePart(const Value& value, int64_t absent) {
  if (value.is_none()) return absent;
  if (!value.is_int()) Fail("the parts of a slice must be integers");
  return value.integer();
}

SliceBounds Bounds(const Value& start, const Value& stop, const Value& by, int64_t size) {
  const int64_t given = SlicePart(by, 1);
  if (given == 0) Fail("the step of a slice cannot be 0");
  const int64_t step = std::clamp(given, -size - 1, size + 1);  // the same items, no overflow
  const int64_t low = step < 0 ? -1 : 0;
  const int64_t high = step < 0 ? size - 1 : size;
  const auto place = [&](const Value& value, int64_t absent) {
    int64_t at = SlicePart(value, absent);
    if (value.is_none()) return at;
    if (at < 0) at = at < -size ? low : std::max(at + size, low);
    return std::min(at, high);
  };
  const int64_t from = place(start, step < 0 ? high : low);
  const int64_t to = place(stop, step < 0 ? low : high);
  int64_t count = 0;
  if (step > 0 && from < to) count = (to - from - 1) / step + 1;
  if (step < 0 && to < from) count = (from - to - 1) / -step + 1;
  return {from, step, count};
}

Value SliceText(Interp& interp, const Value& value, const SliceBounds& bounds, int64_t size) {
  const std::string_view text = value.text();
  const bool ascii = size == static_cast<int64_t>(text.size());
  const auto markup = [&](Value part) {
    return value.is_markup() ? std::move(part).AsMarkup() : part;
  };
  if (bounds.step == 1) {
    const size_t from = ascii ? bounds.start : ByteAt(text, bounds.start);
    const std::string_view rest = text.substr(std::min(from, text.size()));
    const size_t bytes = ascii ? bounds.count : ByteAt(rest, bounds.count);
    return markup(value.Part(rest.substr(0, bytes)));
  }
  interp.Step(size / 4 + bounds.count);
  std::vector<uint32_t> places;  // of characters
  ScopedBytes held(interp.heap());
  if (!ascii) {
    held.Add(HeapBytes(size * sizeof(uint32_t)));
    places.reserve(size);
    for (size_t at = 0; at < text.size(); at += unicode::Utf8Length(text[at])) {
      places.push_back(static_cast<uint32_t>(at));
    }
  }
  TextBuilder out(interp.heap());
  for (int64_t i = 0; i < bounds.count; ++i) {
    const int64_t index = bounds.start + i * bounds.step;
    const size_t at = ascii ? index : places[index];
    out.Add(text.substr(at, unicode::Utf8Length(text[at])));
  }
  return markup(out.Done());
}

}  // namespace

Value Interp::Binary(ExprKind op, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return Arithmetic(op, a, b);
  if (op == ExprKind::kAdd) {
    if (a.is_string() && b.is_string()) return AddTexts(*this, a, b);
    if (a.is_sequence() && a.kind() == b.kind()) {
      const auto& left = a.as<ListObject>().items;
      const auto& right = b.as<ListObject>().items;
      heap_.CheckMemory((left.size() + right.size()) * sizeof(Value));
      std::vector<Value> items;
      items.reserve(left.size() + right.size());
      items.insert(items.end(), left.begin(), left.end());
      items.insert(items.end(), right.begin(), right.end());
      return heap_.List(std::move(items), a.kind());
    }
  }
  if (op == ExprKind::kMul) {
    if ((a.is_string() || a.is_sequence()) && b.is_int()) return Repeat(*this, a, b.integer());
    if ((b.is_string() || b.is_sequence()) && a.is_int()) return Repeat(*this, b, a.integer());
  }
  if (op == ExprKind::kMod && a.is_string()) {
    return FormatPercent(*this, a, b);
  }
  FailOperands(a, b);
}

Value Interp::Negate(const Value& value) {
  if (value.is_float()) return Value::Float(-value.real());
  if (!value.is_int()) FailOperands(value, value);
  if (value.integer() == INT64_MIN) FailOverflow();
  return Value::Int(-value.integer());
}

Value Interp::Slice(const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (object.is_undefined()) FailOperands(object, object);
  if (!object.is_string() && !object.is_sequence() && !object.is(Kind::kRange)) {
    Fail("a value of this type cannot be sliced");
  }
  const int64_t size = Length(object);
  const SliceBounds bounds = Bounds(start, stop, step, size);
  if (object.is_string()) return SliceText(*this, object, bounds, size);
  if (object.is(Kind::kRange)) {
    const RangeObject& range = object.as<RangeObject>();
    const int64_t from = range.start + bounds.start * range.step;
    const int64_t by = range.step * bounds.step;
    return Value(Kind::kRange,
                 heap_.New<RangeObject>(from, from + by * bounds.count, by, bounds.count));
  }
  const auto& items = object.as<ListObject>().items;
  heap_.CheckMemory(bounds.count * sizeof(Value));
  std::vector<Value> out;
  out.reserve(bounds.count);
  for (int64_t i = 0; i < bounds.count; ++i) {
    out.push_back(items[bounds.start + i * bounds.step]);
  }
  return heap_.List(std::move(out), object.kind());
}

Value Interp::Item(const Value& object, const Value& key) {
  if (object.is_undefined()) FailOperands(object, object);
  if (object.is_dict()) {
    const Value* found = IsHashable(key) ? object.as<DictObject>().Find(*this, key) : nullptr;
    if (found != nullptr) return *found;
  } else if (key.is_int()) {
    Value found = ByIndex(*this, object, key.integer());
    if (!found.is_missing()) return found;
  }
  if (!key.is_string()) return Value::Undefined("the item");
  Value found = FindAttribute(object, key);
  return found.is_missing() ? Value::Undefined(key) : found;
}

Value Interp::Attribute(const Value& object, const Value& name) {
  if (object.is_undefined()) FailOperands(object, object);
  Value found = FindAttribute(object, name);
  if (!found.is_missing()) return found;
  if (object.is_dict()) {
    if (const Value* item = object.as<DictObject>().Find(name.text())) return *item;
  }
  return Value::Undefined(name);
}

bool Interp::HasLength(const Value& value) const {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kRange:
    case Kind::kView:
    case Kind::kLoop:
      return true;
    default:
      return false;
  }
}

int64_t Interp::Length(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      heap_.StepBytes(value.text().size());
      return static_cast<int64_t>(unicode::Utf8Count(value.text()));
    case Kind::kList:
    case Kind::kTuple:
      return static_cast<int64_t>(value.as<ListObject>().items.size());
    case Kind::kDict:
      return static_cast<int64_t>(value.as<DictObject>().entries.size());
    case Kind::kRange:
      return value.as<RangeObject>().count;
    case Kind::kView:
      return Length(value.as<ViewObject>().dict);
    case Kind::kLoop:
      return value.as<LoopObject>().Length();
    default:
      Fail("a value of this type has no length");
  }
}

}  // namespace penstock::chat::jinja
