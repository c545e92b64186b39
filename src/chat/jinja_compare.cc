// Truth, equality, order and membership as Python has them; iteration.
#include <bit>
#include <cmath>

#include "base/seeded_hash.h"
#include "chat/jinja_interp.h"
#include "chat/jinja_search.h"
#include "unicode/utf8.h"

namespace penstock::chat::jinja {
namespace {

// 80 bits hold every int64 and every double.
int CompareNumbers(const Value& a, const Value& b) {  // 2: not a number
  if (a.is_int() && b.is_int()) {
    return a.integer() < b.integer() ? -1 : a.integer() > b.integer();
  }
  const long double x = a.is_int() ? a.integer() : static_cast<long double>(a.real());
  const long double y = b.is_int() ? b.integer() : static_cast<long double>(b.real());
  if (std::isnan(x) || std::isnan(y)) return 2;
  return x < y ? -1 : x > y;
}

bool EqualRanges(const RangeObject& a, const RangeObject& b) {
  if (a.count != b.count) return false;
  if (a.count == 0) return true;
  return a.start == b.start && (a.count == 1 || a.step == b.step);
}

size_t HashInt(int64_t number) { return HashWord(static_cast<uint64_t>(number), HashSeed()); }

// Equal ranges have equal ones.
size_t HashRange(const RangeObject& range) {
  uint64_t hash = HashWord(static_cast<uint64_t>(range.count), HashSeed());
  if (range.count > 0) hash = HashWord(static_cast<uint64_t>(range.start), hash);
  if (range.count > 1) hash = HashWord(static_cast<uint64_t>(range.step), hash);
  return hash;
}

}  // namespace

bool Interp::Truth(const Value& value) {
  switch (value.kind()) {
    case Kind::kMissing:
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.integer() != 0;
    case Kind::kFloat:
      return value.real() != 0;
    case Kind::kString:
      return !value.text().empty();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kRange:
    case Kind::kView:
    case Kind::kLoop:
      return Length(value) != 0;
    default:
      return true;
  }
}

bool Interp::Equal(const Value& a, const Value& b) {
  Step();
  if (a.is_number() && b.is_number()) return CompareNumbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      if (a.text().size() != b.text().size()) return false;
      heap_.StepBytes(a.text().size());
      return a.text() == b.text();
    case Kind::kRange:
      return EqualRanges(a.as<RangeObject>(), b.as<RangeObject>());
    default:
      break;
  }
  if (a.object() == b.object()) return true;
  const Deeper deeper(*this);
  if (a.is_sequence()) {
    const auto& x = a.as<ListObject>().items;
    const auto& y = b.as<ListObject>().items;
    if (x.size() != y.size()) return false;
    for (size_t i = 0; i < x.size(); ++i) {
      if (!Equal(x[i], y[i])) return false;
    }
    return true;
  }
  if (!a.is_dict()) return false;
  const DictObject& y = b.as<DictObject>();
  if (a.as<DictObject>().entries.size() != y.entries.size()) return false;
  for (const auto& [key, value] : a.as<DictObject>().entries) {
    const Value* other = y.Find(*this, key);
    if (other == nullptr || !Equal(value, *other)) return false;
  }
  return true;
}

bool Interp::Less(const Value& a, const Value& b, bool or_equal) {
  Step();
  if (a.is_number() && b.is_number()) {
    const int order = CompareNumbers(a, b);
    return order < 0 || (or_equal && order == 0);
  }
  if (a.is_string() && b.is_string()) {
    heap_.StepBytes(std::min(a.text().size(), b.text().size()));
    return or_equal ? a.text() <= b.text() : a.text() < b.text();
  }
  for (const Value* value : {&a, &b}) {
    if (value->is_undefined()) Fail("'" + Shown(value->text()) + "' is undefined");
  }
  if (!a.is_sequence() || a.kind() != b.kind()) Fail("values of these types have no order");
  const Deeper deeper(*this);
  const auto& x = a.as<ListObject>().items;
  const auto& y = b.as<ListObject>().items;
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    if (!Equal(x[i], y[i])) return Less(x[i], y[i], or_equal);
  }
  return or_equal ? x.size() <= y.size() : x.size() < y.size();
}

size_t Interp::Hash(const Value& value) {
  Step();
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return static_cast<size_t>(value.kind());
    case Kind::kBool:
    case Kind::kInt:
      return HashInt(value.integer());
    case Kind::kFloat: {
      const double number = value.real();
      if (number == std::floor(number) && std::fabs(number) < 9e18) {
        return HashInt(static_cast<int64_t>(number));
      }
      return HashWord(std::bit_cast<uint64_t>(number), HashSeed());
    }
    case Kind::kString:
      heap_.StepBytes(value.text().size());
      return SeededHash()(value.text());
    case Kind::kTuple: {
      const Deeper deeper(*this);
      uint64_t hash = HashSeed();
      for (const Value& item : value.as<ListObject>().items) hash = HashWord(Hash(item), hash);
      return hash;
    }
    case Kind::kRange:
      return HashRange(value.as<RangeObject>());
    case Kind::kList:
    case Kind::kDict:
    case Kind::kView:
      Fail("a value of this type cannot be a key");
    default:
      return HashWord(reinterpret_cast<uintptr_t>(value.object()), HashSeed());
  }
}

bool Interp::IsHashable(const Value& value) {
  if (value.is(Kind::kList) || value.is_dict() || value.is(Kind::kView)) return false;
  if (!value.is(Kind::kTuple)) return true;
  const Deeper deeper(*this);
  for (const Value& item : value.as<ListObject>().items) {
    Step();
    if (!IsHashable(item)) return false;
  }
  return true;
}

bool Interp::Contains(const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string()) Fail("only a string can be in a string");
    heap_.StepBytes(container.text().size());
    return FindText(container.text(), item.text()) != std::string_view::npos;
  }
  if (container.is_dict()) {
    Hash(item);
    return container.as<DictObject>().Find(*this, item) != nullptr;
  }
  Walker walker(*this, container);
  for (Value one; walker.Next(&one);) {
    if (Equal(one, item)) return true;
  }
  return false;
}

bool Interp::IsIterable(const Value& value) const {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kRange:
    case Kind::kView:
    case Kind::kIterator:
      return true;
    default:
      return false;
  }
}

Walker::Walker(Interp& interp, Value source) : interp_(&interp), source_(std::move(source)) {
  if (!interp.IsIterable(source_)) Fail("a value of this type cannot be iterated over");
}

bool Walker::Next(Value* item) {
  const Value& source = source_.is(Kind::kView) ? source_.as<ViewObject>().dict : source_;
  switch (source.kind()) {
    case Kind::kString: {
      const std::string_view text = source.text();
      if (at_ >= text.size()) return false;
      const std::string_view c = text.substr(at_, unicode::Utf8Length(text[at_]));
      at_ += c.size();
      *item = source.Part(c);
      break;
    }
    case Kind::kList:
    case Kind::kTuple: {
      const auto& items = source.as<ListObject>().items;
      if (at_ >= items.size()) return false;
      *item = items[at_++];
      break;
    }
    case Kind::kDict: {
      const auto& entries = source.as<DictObject>().entries;
      if (at_ >= entries.size()) return false;
      const auto& [key, value] = entries[at_++];
      if (!source_.is(Kind::kView) || source_.as<ViewObject>().what == ViewObject::What::kKeys) {
        *item = key;
      } else if (source_.as<ViewObject>().what == ViewObject::What::kValues) {
        *item = value;
      } else {
        *item = interp_->heap().Tuple({key, value});
      }
      break;
    }
    case Kind::kRange: {
      const RangeObject& range = source.as<RangeObject>();
      if (static_cast<int64_t>(at_) >= range.count) return false;
      *item = Value::Int(range.start + static_cast<int64_t>(at_++) * range.step);
      break;
    }
    case Kind::kIterator: {
      IteratorObject& iterator = source.as<IteratorObject>();
      if (iterator.at < iterator.items.size()) {
        *item = iterator.items[iterator.at++];
        break;
      }
      if (!iterator.failed) return false;
      iterator.failed = false;
      throw iterator.error;
    }
    default:
      return false;
  }
  interp_->Step();
  return true;
}

ListBuilder Interp::ToItems(const Value& value) {
  ListBuilder items(heap_);
  Walker walker(*this, value);
  for (Value item; walker.Next(&item);) items.Add(std::move(item));
  return items;
}

}  // namespace penstock::chat::jinja
