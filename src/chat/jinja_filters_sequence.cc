// Filters over sequences that sort, join and cut them.
#include <algorithm>

#include "chat/jinja_builtins.h"
#include "chat/jinja_path.h"

namespace penstock::chat::jinja {
namespace {

using std::string_view;

bool Flag(Interp& interp, const Value& value) { return !value.is_missing() && interp.Truth(value); }

Value Length(Interp& interp, const Value& input, const Args& args) {
  args.Bind("length", {}, 0, nullptr);
  return Value::Int(interp.Length(input));
}

Value List(Interp& interp, const Value& input, const Args& args) {
  args.Bind("list", {}, 0, nullptr);
  return interp.ToItems(input).Done();
}

Value First(Interp& interp, const Value& input, const Args& args) {
  args.Bind("first", {}, 0, nullptr);
  Walker walker(interp, input);
  Value item;
  return walker.Next(&item) ? item : Value::Undefined("first");
}

// reversed() takes no iterator, and no text that is not one; but texts and dicts it does.
ListBuilder Reversed(Interp& interp, const Value& input) {
  const bool known = interp.HasLength(input) && !input.is(Kind::kLoop);
  if (!known) Fail("a value of this type cannot be reversed");
  ListBuilder items = interp.ToItems(input);
  std::reverse(items.items().begin(), items.items().end());
  return items;
}

Value Last(Interp& interp, const Value& input, const Args& args) {
  args.Bind("last", {}, 0, nullptr);
  if (input.is_sequence()) {
    const auto& items = input.as<ListObject>().items;
    return items.empty() ? Value::Undefined("last") : items.back();
  }
  const ListBuilder items = Reversed(interp, input);
  return items.items().empty() ? Value::Undefined("last") : items.items()[0];
}

Value Reverse(Interp& interp, const Value& input, const Args& args) {
  args.Bind("reverse", {}, 0, nullptr);
  if (input.is_string()) {
    return interp.Slice(input, Value::None(), Value::None(), Value::Int(-1));
  }
  if (input.is(Kind::kIterator)) {
    ListBuilder items = interp.ToItems(input);
    std::reverse(items.items().begin(), items.items().end());
    return items.Done();
  }
  return Iterator(interp, "reversed", Reversed(interp, input));
}

Value Join(Interp& interp, const Value& input, const Args& args) {
  Value given[2];
  args.Bind("join", {"d", "attribute"}, 0, given);
  const Value separator = given[0].is_missing() ? Value::Borrowed("") : interp.SafeStr(given[0]);
  const Path path(interp, given[1]);
  TextBuilder out(interp.heap());
  bool first = true;
  Walker walker(interp, input);
  for (Value item; walker.Next(&item); first = false) {
    if (!first) out.Add(separator.text());
    interp.AppendStr(path.Get(item), &out);
  }
  return out.Done();
}

// ---- Order

// `items` by the order of their keys, as Python's sorted has them.
ListBuilder Sorted(Interp& interp, ListBuilder items, ListBuilder keys, bool reverse) {
  const size_t count = items.items().size();
  // The order, and half that number of places to merge it in.
  const ScopedBytes held(interp.heap(), HeapBytes(2 * count * sizeof(size_t)));
  std::vector<size_t> order(count);
  for (size_t i = 0; i < count; ++i) order[i] = i;
  // Equal items keep their order, reversed or not.
  std::stable_sort(order.begin(), order.end(), [&, &by = keys.items()](size_t a, size_t b) {
    return reverse ? interp.Less(by[b], by[a]) : interp.Less(by[a], by[b]);
  });
  ListBuilder sorted(interp.heap());
  sorted.Reserve(count);
  for (const size_t i : order) sorted.Add(std::move(items.items()[i]));
  return sorted;
}

Value Sort(Interp& interp, const Value& input, const Args& args) {
  Value given[3];
  args.Bind("sort", {"reverse", "case_sensitive", "attribute"}, 0, given);
  const bool fold = !Flag(interp, given[1]);
  const string_view names = given[2].is_string() ? given[2].text() : string_view();
  const size_t paths_size = 1 + std::count(names.begin(), names.end(), ',');
  const ScopedBytes held(interp.heap(), HeapBytes(paths_size * sizeof(Path)));
  std::vector<Path> paths;
  paths.reserve(paths_size);
  if (given[2].is_string()) {
    for (string_view rest = names;;) {
      const size_t comma = rest.find(',');
      paths.emplace_back(interp, given[2].Part(rest.substr(0, comma)));
      if (comma == rest.npos) break;
      rest.remove_prefix(comma + 1);
    }
  } else {
    paths.emplace_back(interp, given[2]);
  }
  ListBuilder items = interp.ToItems(input);
  ListBuilder keys(interp.heap());
  for (const Value& item : items.items()) {
    ListBuilder key(interp.heap());
    key.Reserve(paths.size());
    for (const Path& path : paths) key.Add(Folded(interp, path.Get(item), fold));
    keys.Add(key.Done());
  }
  return Sorted(interp, std::move(items), std::move(keys), Flag(interp, given[0])).Done();
}

Value DictSort(Interp& interp, const Value& input, const Args& args) {
  Value given[3];
  args.Bind("dictsort", {"case_sensitive", "by", "reverse"}, 0, given);
  const Value by = given[1].is_missing() ? Value::Borrowed("key") : given[1];
  const bool by_value = by.is_string() && by.text() == "value";
  if (!by_value && !(by.is_string() && by.text() == "key")) {
    Fail("dictsort: sorts by key or by value");
  }
  if (!input.is_dict()) Fail("dictsort: a dict is expected");
  ListBuilder items(interp.heap()), keys(interp.heap());
  for (const auto& [key, value] : input.as<DictObject>().entries) {
    items.Add(interp.heap().Tuple({key, value}));
    keys.Add(Folded(interp, by_value ? value : key, !Flag(interp, given[0])));
  }
  return Sorted(interp, std::move(items), std::move(keys), Flag(interp, given[2])).Done();
}

template <bool greatest>
Value Extreme(Interp& interp, const Value& input, const Args& args) {
  Value given[2];
  args.Bind("min", {"case_sensitive", "attribute"}, 0, given);
  const Path path(interp, given[1]);
  const bool fold = !Flag(interp, given[0]);
  Value best, best_key;
  Walker walker(interp, input);
  for (Value item; walker.Next(&item);) {
    Value key = Folded(interp, path.Get(item), fold);
    const bool better =
        best.is_missing() || (greatest ? interp.Less(best_key, key) : interp.Less(key, best_key));
    if (!better) continue;
    best = item;
    best_key = std::move(key);
  }
  return best.is_missing() ? Value::Undefined("min") : best;
}

Value GroupBy(Interp& interp, const Value& input, const Args& args) {
  Value given[3];
  args.Bind("groupby", {"attribute", "default", "case_sensitive"}, 1, given);
  const bool fold = !Flag(interp, given[2]);
  const Path path(interp, given[0], given[1]);
  ListBuilder given_items = interp.ToItems(input);
  ListBuilder keys(interp.heap());
  for (const Value& item : given_items.items()) keys.Add(Folded(interp, path.Get(item), fold));
  const ListBuilder sorted = Sorted(interp, std::move(given_items), std::move(keys), false);
  const std::vector<Value>& items = sorted.items();
  ListBuilder groups(interp.heap());
  for (size_t at = 0; at < items.size();) {
    const Value key = Folded(interp, path.Get(items[at]), fold);
    ListBuilder members(interp.heap());
    const Value grouper = path.Get(items[at]);
    while (at < items.size() && interp.Equal(Folded(interp, path.Get(items[at]), fold), key)) {
      members.Add(items[at++]);
    }
    if (members.items().empty()) members.Add(items[at++]);  // not equal to itself
    const Value group = interp.heap().Tuple({grouper, members.Done()});
    group.as<ListObject>().group = true;
    groups.Add(group);
  }
  return groups.Done();
}

// ---- Parts

Value Unique(Interp& interp, const Value& input, const Args& args) {
  Value given[2];
  args.Bind("unique", {"case_sensitive", "attribute"}, 0, given);
  const bool fold = !Flag(interp, given[0]);
  const Path path(interp, given[1]);
  return Lazy(interp, [&](ListBuilder* out) {
    const Value seen = interp.NewDict();
    Walker walker(interp, input);
    for (Value item; walker.Next(&item);) {
      const Value key = Folded(interp, path.Get(item), fold);
      if (seen.as<DictObject>().Find(interp, key) != nullptr) continue;
      interp.Hash(key);
      seen.as<DictObject>().Set(interp, key, Value::None());
      out->Add(item);
    }
  });
}

Value Batch(Interp& interp, const Value& input, const Args& args) {
  Value given[2];
  args.Bind("batch", {"linecount", "fill_with"}, 1, given);
  return Lazy(interp, [&](ListBuilder* out) {
    ListBuilder line(interp.heap());
    const auto full = [&] {
      return given[0].is_number() && static_cast<double>(line.items().size()) == given[0].real();
    };
    Walker walker(interp, input);
    for (Value item; walker.Next(&item);) {
      if (full()) out->Add(line.Done());
      line.Add(item);
    }
    if (line.items().empty()) return;
    const bool fill = !given[1].is_missing() && !given[1].is_none();
    if (fill && interp.Less(Value::Int(line.items().size()), given[0])) {
      const int64_t count = IntArg(given[0], 0);
      while (static_cast<int64_t>(line.items().size()) < count) line.Add(given[1]);
    }
    out->Add(line.Done());
  });
}

Value SliceFilter(Interp& interp, const Value& input, const Args& args) {
  Value given[2];
  args.Bind("slice", {"slices", "fill_with"}, 1, given);
  return Lazy(interp, [&](ListBuilder* out) {
    const ListBuilder all = interp.ToItems(input);
    const std::vector<Value>& items = all.items();
    const int64_t slices = IntArg(given[0], 0);
    if (slices == 0) Fail("slice: no slices");
    if (slices < 0) return;
    const auto size = static_cast<int64_t>(items.size());
    const int64_t each = size / slices;
    const int64_t longer = size % slices;
    const bool fill = !given[1].is_missing() && !given[1].is_none();
    int64_t at = 0;
    for (int64_t i = 0; i < slices; ++i) {
      ListBuilder part(interp.heap());
      const int64_t count = each + (i < longer);
      for (int64_t n = 0; n < count; ++n) part.Add(items[at++]);
      if (fill && i >= longer) part.Add(given[1]);
      out->Add(part.Done());
    }
  });
}

Value Items(Interp& interp, const Value& input, const Args& args) {
  args.Bind("items", {}, 0, nullptr);
  return Lazy(interp, [&](ListBuilder* out) {
    if (input.is_undefined()) return;
    if (!input.is_dict()) Fail("items: a dict is expected");
    for (const auto& [key, value] : input.as<DictObject>().entries) {
      out->Add(interp.heap().Tuple({key, value}));
    }
  });
}

Value Sum(Interp& interp, const Value& input, const Args& args) {
  Value given[2];
  args.Bind("sum", {"attribute", "start"}, 0, given);
  const Path path(interp, given[0].is_none() ? Value() : given[0]);
  Value sum = given[1].is_missing() ? Value::Int(0) : given[1];
  if (sum.is_string()) Fail("sum: strings cannot be summed");
  Walker walker(interp, input);
  for (Value item; walker.Next(&item);) sum = interp.Binary(ExprKind::kAdd, sum, path.Get(item));
  return sum;
}

constexpr Filter kSequenceFilters[] = {
    {"batch", Batch},     {"count", Length},      {"dictsort", DictSort}, {"first", First},
    {"groupby", GroupBy}, {"items", Items},       {"join", Join},         {"last", Last},
    {"length", Length},   {"list", List},         {"max", Extreme<true>}, {"min", Extreme<false>},
    {"reverse", Reverse}, {"slice", SliceFilter}, {"sort", Sort},         {"sum", Sum},
    {"unique", Unique}};

}  // namespace

std::span<const Filter> SequenceFilters() { return kSequenceFilters; }

}  // namespace penstock::chat::jinja
