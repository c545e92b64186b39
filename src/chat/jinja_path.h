// Shared by the filters over sequences: attributes by a dotted path, results that come as an
// iterator.
#pragma once

#include "chat/jinja_interp.h"

namespace penstock::chat::jinja {

// "a.b.0" or an index: what an `attribute` argument asks of each item. Missing, or Jinja's none:
// the item itself.
class Path {
 public:
  Path(Interp& interp, const Value& attribute, Value absent = Value());
  Value Get(Value item) const;

 private:
  Interp* interp_;
  ListBuilder parts_;
  Value absent_;  // takes the place of an undefined one
};

// Without upper case, if `fold` and it is a text.
Value Folded(Interp& interp, const Value& value, bool fold);

// An iterator over these items; `type`: its name, static.
inline Value Iterator(Interp& interp, const char* type, ListBuilder items) {
  const size_t bytes = HeapBytes(items.items().capacity() * sizeof(Value));
  Value iterator(Kind::kIterator, interp.heap().New<IteratorObject>(type, items.Take()));
  interp.heap().Charge(iterator.object(), bytes);
  return iterator;
}

// An iterator over what `fill` adds. Python computes such a thing when it is walked, so an error
// shows up there, behind the items before it; limits show up at once.
template <typename Fill>
Value Lazy(Interp& interp, Fill&& fill) {
  ListBuilder out(interp.heap());
  Error error;
  bool failed = false;
  try {
    fill(&out);
  } catch (const Error& caught) {
    if (caught.limit) throw;
    error = caught;
    failed = true;
  }
  Value value = Iterator(interp, "generator", std::move(out));
  value.as<IteratorObject>().failed = failed;
  value.as<IteratorObject>().error = std::move(error);
  return value;
}

}  // namespace penstock::chat::jinja
