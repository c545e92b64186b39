// The tables of names, the globals, and the methods of lists and dicts.
#include "chat/jinja_builtins.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <iterator>

namespace penstock::chat::jinja {
namespace {

using std::string_view;

// The sandbox's own limit.
constexpr int64_t kRangeMax = 100'000;

// ---- Globals

Value Range(Interp& interp, const Value&, const Args& args) {
  if (!args.named.empty()) Fail("range: arguments have no names");
  const size_t count = args.positional.size();
  if (count < 1 || count > 3) Fail("range: one to three arguments are expected");
  int64_t parts[3];
  for (size_t i = 0; i < count; ++i) {
    if (!args.positional[i].is_int()) Fail("range: integers are expected");
    parts[i] = args.positional[i].integer();
  }
  const int64_t start = count > 1 ? parts[0] : 0;
  const int64_t stop = count > 1 ? parts[1] : parts[0];
  const int64_t step = count > 2 ? parts[2] : 1;
  if (step == 0) Fail("range: the step is 0");
  __int128 size = 0;
  if (step > 0 && start < stop) size = (__int128{stop} - start - 1) / step + 1;
  if (step < 0 && start > stop) size = (__int128{start} - stop - 1) / -__int128{step} + 1;
  if (size > kRangeMax) FailLimit("a range is longer than " + std::to_string(kRangeMax));
  return Value(Kind::kRange,
               interp.heap().New<RangeObject>(start, stop, step, static_cast<int64_t>(size)));
}

// dict(mapping or pairs, name=value, ...)
Value Dict(Interp& interp, const Value&, const Args& args) {
  if (args.positional.size() > 1) Fail("dict: at most one argument without a name");
  Value dict = interp.NewDict();
  DictObject& out = dict.as<DictObject>();
  if (!args.positional.empty() && args.positional[0].is_dict()) {
    for (const auto& [key, value] : args.positional[0].as<DictObject>().entries) {
      out.Set(interp, key, value);
    }
  } else if (!args.positional.empty()) {
    Walker walker(interp, args.positional[0]);
    for (Value pair; walker.Next(&pair);) {
      const ListBuilder parts = interp.ToItems(pair);
      if (parts.items().size() != 2) Fail("dict: pairs are expected");
      out.Set(interp, parts.items()[0], parts.items()[1]);
    }
  }
  for (const auto& [name, value] : args.named) out.Set(interp, name, value);
  return dict;
}

Value Namespace(Interp& interp, const Value& self, const Args& args) {
  const Value attributes = Dict(interp, self, args);
  for (const auto& [name, value] : attributes.as<DictObject>().entries) {
    if (name.is_string() && name.text().starts_with('_')) {
      Fail("attributes of a namespace may not begin with '_'");
    }
  }
  NamespaceObject* object = interp.heap().New<NamespaceObject>();
  object->attributes = attributes;
  return Value(Kind::kNamespace, object);
}

Value Cycler(Interp& interp, const Value&, const Args& args) {
  if (args.positional.empty() || !args.named.empty()) Fail("cycler: no items are given");
  CyclerObject* object = interp.heap().New<CyclerObject>();
  const Value cycler(Kind::kCycler, object);
  interp.heap().Charge(object, HeapBytes(args.positional.size() * sizeof(Value)));
  object->items = args.positional;
  return cycler;
}

Value Joiner(Interp& interp, const Value&, const Args& args) {
  Value separator;
  args.Bind("joiner", {"sep"}, 0, &separator);
  JoinerObject* object = interp.heap().New<JoinerObject>();
  object->separator = separator.is_missing() ? Value::Borrowed(", ") : separator;
  return Value(Kind::kJoiner, object);
}

Value RaiseException(Interp& interp, const Value&, const Args& args) {
  Value message;
  args.Bind("raise_exception", {"message"}, 1, &message);
  const Value text = interp.Str(message);
  throw Error{StatusCode::kInvalidArgument, Shown(text.text()), true, false};
}

Value StrftimeNow(Interp& interp, const Value&, const Args& args) {
  Value format;
  args.Bind("strftime_now", {"format"}, 1, &format);
  const string_view given = TextArg(format, {});
  constexpr size_t kFormatBytesMax = 1024;
  if (given.size() > kFormatBytesMax) FailLimit("strftime_now: the format is too long");
  const std::time_t seconds = Interp::Clock::to_time_t(interp.now());
  std::tm parts{};
  localtime_r(&seconds, &parts);
  std::string out;
  if (!given.empty()) {
    // A sign in front tells an empty result from one that does not fit.
    const std::string signed_format = "." + std::string(given);
    std::array<char, 64 << 10> buffer;
    const size_t size = std::strftime(buffer.data(), buffer.size(), signed_format.c_str(), &parts);
    if (size == 0) FailLimit("strftime_now: the text is too long");
    out.assign(buffer.data() + 1, size - 1);
  }
  return interp.Text(std::move(out));
}

constexpr Named kGlobals[] = {{"cycler", Cycler},
                              {"dict", Dict},
                              {"joiner", Joiner},
                              {"namespace", Namespace},
                              {"raise_exception", RaiseException},
                              {"range", Range},
                              {"strftime_now", StrftimeNow}};

// ---- Methods of lists, tuples and ranges

Value CountOf(Interp& interp, const Value& self, const Args& args) {
  Value item;
  args.Bind("count", {"value"}, 1, &item);
  int64_t count = 0;
  Walker walker(interp, self);
  for (Value one; walker.Next(&one);) count += interp.Equal(one, item);
  return Value::Int(count);
}

Value IndexOf(Interp& interp, const Value& self, const Args& args) {
  Value given[3];
  args.Bind("index", {"value", "start", "stop"}, 1, given);
  const int64_t size = interp.Length(self);
  const auto place = [&](const Value& value, int64_t absent) {
    const int64_t at = IntArg(value, absent);
    return at < 0 ? std::max<int64_t>(at < -size ? 0 : at + size, 0) : at;
  };
  const int64_t start = place(given[1], 0);
  const int64_t stop = place(given[2], size);
  int64_t at = 0;
  Walker walker(interp, self);
  for (Value one; walker.Next(&one); ++at) {
    if (at >= start && at < stop && interp.Equal(one, given[0])) return Value::Int(at);
  }
  Fail("index: the value is not in the list");
}

Value Copy(Interp& interp, const Value& self, const Args& args) {
  args.Bind("copy", {}, 0, nullptr);
  if (self.is(Kind::kList)) return interp.ToItems(self).Done();
  Args one;
  one.positional.push_back(self);
  return Dict(interp, self, one);
}

// ---- Methods of dicts

Value Get(Interp& interp, const Value& self, const Args& args) {
  Value given[2];
  args.Bind("get", {"key", "default"}, 1, given);
  interp.Hash(given[0]);
  const Value* found = self.as<DictObject>().Find(interp, given[0]);
  if (found != nullptr) return *found;
  return given[1].is_missing() ? Value::None() : given[1];
}

template <ViewObject::What what>
Value View(Interp& interp, const Value& self, const Args& args) {
  args.Bind("keys", {}, 0, nullptr);
  return Value(Kind::kView, interp.heap().New<ViewObject>(self, what));
}

constexpr Named kListMethods[] = {{"copy", Copy}, {"count", CountOf}, {"index", IndexOf}};
constexpr Named kTupleMethods[] = {{"count", CountOf}, {"index", IndexOf}};
constexpr Named kDictMethods[] = {{"copy", Copy},
                                  {"get", Get},
                                  {"items", View<ViewObject::What::kItems>},
                                  {"keys", View<ViewObject::What::kKeys>},
                                  {"values", View<ViewObject::What::kValues>}};
constexpr string_view kHiddenOfLists[] = {"append", "clear",  "extend",  "insert",
                                          "pop",    "remove", "reverse", "sort"};
constexpr string_view kHiddenOfDicts[] = {"clear", "pop", "popitem", "setdefault", "update"};

template <typename Entry>
const Entry* FindIn(std::span<const Entry> table, string_view name) {
  for (const Entry& entry : table) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

}  // namespace

const Filter* FindFilter(string_view name) {
  for (const auto table : {TextFilters(), SequenceFilters(), PickFilters()}) {
    if (const Filter* filter = FindIn(table, name)) return filter;
  }
  return nullptr;
}

const Named* FindGlobal(string_view name) { return FindIn(std::span<const Named>(kGlobals), name); }

const Named* FindMethod(Kind kind, string_view name) {
  switch (kind) {
    case Kind::kString:
      if (const Named* method = FindIn(TextMethods(), name)) return method;
      return FindIn(TextLineMethods(), name);
    case Kind::kList:
      return FindIn(std::span<const Named>(kListMethods), name);
    case Kind::kTuple:
    case Kind::kRange:
      return FindIn(std::span<const Named>(kTupleMethods), name);
    case Kind::kDict:
      return FindIn(std::span<const Named>(kDictMethods), name);
    default:
      return nullptr;
  }
}

bool IsHiddenMethod(Kind kind, string_view name) {
  const auto has = [&](const auto& names) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  if (kind == Kind::kList) return has(kHiddenOfLists);
  return kind == Kind::kDict && has(kHiddenOfDicts);
}

}  // namespace penstock::chat::jinja
