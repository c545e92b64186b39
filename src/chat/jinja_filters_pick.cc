// Filters that pick and map, by tests, filters and attributes; and the paths they all use.
#include <algorithm>

#include "chat/jinja_builtins.h"
#include "chat/jinja_path.h"
#include "unicode/lower_case.h"

namespace penstock::chat::jinja {
namespace {

using std::string_view;

Value Default(Interp& interp, const Value& input, const Args& args) {
  Value given[2];
  args.Bind("default", {"default_value", "boolean"}, 0, given);
  const bool boolean = !given[1].is_missing() && interp.Truth(given[1]);
  if (!input.is_undefined() && !(boolean && !interp.Truth(input))) return input;
  return given[0].is_missing() ? Value::Borrowed("") : given[0];
}

Value Attr(Interp& interp, const Value& input, const Args& args) {
  Value name;
  args.Bind("attr", {"name"}, 1, &name);
  if (!name.is_string()) Fail("attr: the name must be a string");
  if (input.is_undefined()) Fail("'" + Shown(input.text()) + "' is undefined");
  const Value found = interp.FindAttribute(input, name);
  return found.is_missing() ? Value::Undefined(name) : found;
}

// Bytes of a copy of `args`.
size_t BytesOf(const Args& args) {
  return HeapBytes(args.positional.size() * sizeof(Value)) +
         HeapBytes(args.named.size() * sizeof(args.named[0]));
}

Value Map(Interp& interp, const Value& input, const Args& args) {
  return Lazy(interp, [&](ListBuilder* out) {
    if (!interp.Truth(input)) return;
    const Value* attribute = args.Named("attribute");
    if (args.positional.empty() && attribute != nullptr) {
      const Value* absent = args.Named("default");
      if (args.named.size() > 1 + (absent != nullptr)) Fail("map: unknown argument");
      const bool has_default = absent != nullptr && !absent->is_none();
      const Path path(interp, *attribute, has_default ? *absent : Value());
      Walker walker(interp, input);
      for (Value item; walker.Next(&item);) out->Add(path.Get(item));
      return;
    }
    if (args.positional.empty()) Fail("map: a filter or an attribute is expected");
    const ScopedBytes held(interp.heap(), BytesOf(args));
    Args rest;
    rest.positional.assign(args.positional.begin() + 1, args.positional.end());
    rest.named = args.named;
    Walker walker(interp, input);
    for (Value item; walker.Next(&item);) {
      out->Add(interp.CallFilter(args.positional[0], item, rest));
    }
  });
}

template <bool wanted, bool by_attribute>
Value Pick(Interp& interp, const Value& input, const Args& args) {
  return Lazy(interp, [&](ListBuilder* out) {
    if (!interp.Truth(input)) return;
    const size_t skip = by_attribute ? 1 : 0;
    if (args.positional.size() < skip) Fail("an attribute is expected");
    const Path path(interp, by_attribute ? args.positional[0] : Value());
    const bool has_test = args.positional.size() > skip;
    const ScopedBytes held(interp.heap(), BytesOf(args));
    Args rest;
    if (has_test) rest.positional.assign(args.positional.begin() + skip + 1, args.positional.end());
    rest.named = args.named;
    Walker walker(interp, input);
    for (Value item; walker.Next(&item);) {
      const Value value = path.Get(item);
      const bool passed =
          has_test ? interp.CallTest(args.positional[skip], value, rest) : interp.Truth(value);
      if (passed == wanted) out->Add(item);
    }
  });
}

constexpr Filter kFilters[] = {{"attr", Attr},
                               {"d", Default},
                               {"default", Default},
                               {"map", Map},
                               {"reject", Pick<false, false>},
                               {"rejectattr", Pick<false, true>},
                               {"select", Pick<true, false>},
                               {"selectattr", Pick<true, true>}};

}  // namespace

Path::Path(Interp& interp, const Value& attribute, Value absent)
    : interp_(&interp), parts_(interp.heap()), absent_(std::move(absent)) {
  if (attribute.is_missing() || attribute.is_none()) return;
  if (!attribute.is_string()) {
    parts_.Add(attribute);
    return;
  }
  for (string_view rest = attribute.text();;) {
    const string_view part = rest.substr(0, rest.find('.'));
    int64_t index = 0;
    const bool digits = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
    if (digits && ParseInt(part, 10, &index)) {
      parts_.Add(Value::Int(index));
    } else {
      parts_.Add(attribute.Part(part));
    }
    if (part.size() == rest.size()) break;
    rest.remove_prefix(part.size() + 1);
  }
}

Value Path::Get(Value item) const {
  for (const Value& part : parts_.items()) {
    item = interp_->Item(item, part);
    if (item.is_undefined() && !absent_.is_missing()) item = absent_;
  }
  return item;
}

Value Folded(Interp& interp, const Value& value, bool fold) {
  if (!fold || !value.is_string()) return value;
  interp.heap().CheckMemory(value.text().size() * 3);
  return interp.Text(unicode::LowerCase(value.text()));
}

std::span<const Filter> PickFilters() { return kFilters; }

}  // namespace penstock::chat::jinja
