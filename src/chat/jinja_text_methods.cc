// Methods of str that search and cut: find, split, strip and the like.
#include <algorithm>

#include "chat/jinja_builtins.h"
#include "chat/jinja_lexer.h"
#include "chat/jinja_search.h"
#include "unicode/utf8.h"

namespace penstock::chat::jinja {
namespace {

using std::string_view;

// The arguments of a method that gives them no names.
const std::vector<Value>& Plain(const Args& args, size_t least, size_t most) {
  if (!args.named.empty()) Fail("the arguments of this method have no names");
  if (args.positional.size() < least || args.positional.size() > most) {
    Fail("a method is called with " + std::to_string(args.positional.size()) + " arguments");
  }
  return args.positional;
}

Value Same(const Value& self, Value part) {
  return self.is_markup() ? std::move(part).AsMarkup() : std::move(part).AsPlain();
}

// ---- Searching

// Bytes of the part from character `start` to `stop`, as Python counts them.
struct Span {
  size_t begin = 0, end = 0;
  bool empty_range = false;  // begins behind its end: even the empty text is not in it
};

Span PartOf(Interp& interp, const Value& self, const std::vector<Value>& args) {
  const string_view text = self.text();
  Span span{0, text.size(), false};
  if (args.size() < 2) return span;
  const int64_t size = interp.Length(self);
  const auto place = [&](size_t i, int64_t absent) {
    if (args.size() <= i || args[i].is_none()) return absent;
    const int64_t at = IntArg(args[i], absent);
    return at < 0 ? std::max<int64_t>(at < -size ? 0 : at + size, 0) : at;
  };
  const int64_t start = place(1, 0);
  const int64_t stop = std::min(place(2, size), size);
  span.empty_range = start > stop;
  const auto byte_of = [&](int64_t count) {
    size_t at = 0;
    for (; count > 0 && at < text.size(); --count) at += unicode::Utf8Length(text[at]);
    return at;
  };
  span.begin = byte_of(start);
  span.end = std::max(span.begin, byte_of(stop));
  return span;
}

int64_t Search(Interp& interp, const Value& self, const Args& args, bool last) {
  const auto& given = Plain(args, 1, 3);
  const string_view needle = TextArg(given[0], {});
  const string_view text = self.text();
  const Span span = PartOf(interp, self, given);
  interp.heap().StepBytes(text.size());
  if (span.empty_range) return -1;
  const string_view part = text.substr(span.begin, span.end - span.begin);
  interp.heap().StepBytes(needle.size());
  const ScopedBytes held(interp.heap(), last ? BackwardSearch::BytesFor(needle) : 0);
  const size_t at = last ? BackwardSearch(needle).Find(part) : FindText(part, needle);
  if (at == part.npos) return -1;
  return static_cast<int64_t>(unicode::Utf8Count(text.substr(0, span.begin + at)));
}

template <bool last>
Value Find(Interp& interp, const Value& self, const Args& args) {
  return Value::Int(Search(interp, self, args, last));
}

template <bool last>
Value Index(Interp& interp, const Value& self, const Args& args) {
  const int64_t at = Search(interp, self, args, last);
  if (at < 0) Fail("the text is not found");
  return Value::Int(at);
}

Value Count(Interp& interp, const Value& self, const Args& args) {
  const auto& given = Plain(args, 1, 3);
  const string_view needle = TextArg(given[0], {});
  const Span span = PartOf(interp, self, given);
  interp.heap().StepBytes(self.text().size());
  if (span.empty_range) return Value::Int(0);
  const string_view part = self.text().substr(span.begin, span.end - span.begin);
  if (needle.empty()) return Value::Int(static_cast<int64_t>(unicode::Utf8Count(part)) + 1);
  int64_t count = 0;
  for (size_t at = FindText(part, needle); at != part.npos;
       at = FindText(part, needle, at + needle.size())) {
    ++count;
  }
  return Value::Int(count);
}

template <bool at_end>
Value StartsWith(Interp& interp, const Value& self, const Args& args) {
  const auto& given = Plain(args, 1, 3);
  const Span span = PartOf(interp, self, given);
  const string_view part = self.text().substr(span.begin, span.end - span.begin);
  const auto matches = [&](const Value& value) {
    const string_view affix = TextArg(value, {});
    return !span.empty_range && (at_end ? part.ends_with(affix) : part.starts_with(affix));
  };
  if (!given[0].is(Kind::kTuple)) return Value::Bool(matches(given[0]));
  for (const Value& one : given[0].as<ListObject>().items) {
    interp.Step();
    if (matches(one)) return Value::Bool(true);
  }
  return Value::Bool(false);
}

// ---- Cutting

template <bool left, bool right>
Value Strip(Interp& interp, const Value& self, const Args& args) {
  const auto& given = Plain(args, 0, 1);
  string_view text = self.text();
  interp.heap().StepBytes(text.size());
  if (given.empty() || given[0].is_none()) {
    if (left) text = StripLeft(text);
    if (right) text = StripRight(text);
    return Same(self, self.Part(text));
  }
  const string_view set = TextArg(given[0], {});
  const auto has = [&](string_view c) {
    interp.heap().Step(1 + set.size() / 64);
    for (size_t at = set.find(c); at != set.npos; at = set.find(c, at + 1)) {
      if (!unicode::IsUtf8Continuation(set[at])) return true;
    }
    return false;
  };
  while (left && !text.empty() && has(text.substr(0, unicode::Utf8Length(text[0])))) {
    text.remove_prefix(unicode::Utf8Length(text[0]));
  }
  while (right && !text.empty()) {
    int length = 0;
    unicode::DecodeUtf8Before(text.data() + text.size(), &length);
    if (!has(text.substr(text.size() - length))) break;
    text.remove_suffix(length);
  }
  return Same(self, self.Part(text));
}

template <bool at_end>
Value RemoveAffix(Interp&, const Value& self, const Args& args) {
  const string_view affix = TextArg(Plain(args, 1, 1)[0], {});
  string_view text = self.text();
  if (at_end && text.ends_with(affix)) text.remove_suffix(affix.size());
  if (!at_end && text.starts_with(affix)) text.remove_prefix(affix.size());
  return Same(self, self.Part(text));
}

template <bool last>
Value Partition(Interp& interp, const Value& self, const Args& args) {
  const Value separator = Plain(args, 1, 1)[0];
  const string_view sign = TextArg(separator, {});
  if (sign.empty()) Fail("the separator is empty");
  const string_view text = self.text();
  interp.heap().StepBytes(text.size());
  interp.heap().StepBytes(sign.size());
  const ScopedBytes held(interp.heap(), last ? BackwardSearch::BytesFor(sign) : 0);
  const size_t at = last ? BackwardSearch(sign).Find(text) : FindText(text, sign);
  const Value none = Same(self, Value::Borrowed(""));
  const Value whole = self;
  if (at == text.npos) {
    return interp.heap().Tuple(last ? std::vector<Value>{none, none, whole}
                                    : std::vector<Value>{whole, none, none});
  }
  return interp.heap().Tuple({Same(self, self.Part(text.substr(0, at))),
                              Same(self, self.Part(text.substr(at, sign.size()))),
                              Same(self, self.Part(text.substr(at + sign.size())))});
}

void SplitSpaces(Interp& interp, const Value& self, int64_t most, ListBuilder* out) {
  string_view rest = StripLeft(self.text());
  while (!rest.empty()) {
    if (most-- == 0) {
      out->Add(Same(self, self.Part(rest)));
      return;
    }
    size_t at = 0;
    while (at < rest.size()) {
      int length = 0;
      if (IsPythonSpace(unicode::DecodeUtf8(rest.data() + at, &length))) break;
      at += length;
    }
    out->Add(Same(self, self.Part(rest.substr(0, at))));
    interp.heap().StepBytes(at);
    rest = StripLeft(rest.substr(at));
  }
}

// From the end; the parts come in the order of the text.
void SplitSpacesRight(const Value& self, int64_t most, ListBuilder* out) {
  string_view rest = StripRight(self.text());
  while (!rest.empty()) {
    if (most-- == 0) {
      out->Add(Same(self, self.Part(rest)));
      break;
    }
    size_t at = rest.size();
    while (at > 0) {
      int length = 0;
      if (IsPythonSpace(unicode::DecodeUtf8Before(rest.data() + at, &length))) break;
      at -= length;
    }
    out->Add(Same(self, self.Part(rest.substr(at))));
    rest = StripRight(rest.substr(0, at));
  }
  std::reverse(out->items().begin(), out->items().end());
}

template <bool from_right>
Value Split(Interp& interp, const Value& self, const Args& args) {
  Value given[2];
  args.Bind("split", {"sep", "maxsplit"}, 0, given);
  const int64_t most = IntArg(given[1], -1);
  interp.heap().StepBytes(self.text().size());
  ListBuilder out(interp.heap());
  if (given[0].is_missing() || given[0].is_none()) {
    from_right ? SplitSpacesRight(self, most, &out) : SplitSpaces(interp, self, most, &out);
    return out.Done();
  }
  const string_view sign = TextArg(given[0], {});
  if (sign.empty()) Fail("the separator is empty");
  interp.heap().StepBytes(sign.size());
  const string_view searched = from_right ? sign : string_view();
  const ScopedBytes held(interp.heap(), BackwardSearch::BytesFor(searched));
  const BackwardSearch backward(searched);
  string_view rest = self.text();
  for (int64_t left = most; left != 0; --left) {
    const size_t at = from_right ? backward.Find(rest) : FindText(rest, sign);
    if (at == rest.npos) break;
    const string_view behind = rest.substr(at + sign.size());
    out.Add(Same(self, self.Part(from_right ? behind : rest.substr(0, at))));
    rest = from_right ? rest.substr(0, at) : behind;
  }
  out.Add(Same(self, self.Part(rest)));
  if (from_right) std::reverse(out.items().begin(), out.items().end());
  return out.Done();
}

Value SplitLines(Interp& interp, const Value& self, const Args& args) {
  Value keep;
  args.Bind("splitlines", {"keepends"}, 0, &keep);
  interp.heap().StepBytes(self.text().size());
  ListBuilder out(interp.heap());
  for (string_view rest = self.text(); !rest.empty();) {
    size_t bytes = 0;
    const size_t line = LineLength(rest, &bytes);
    const bool whole = !keep.is_missing() && interp.Truth(keep);
    out.Add(Same(self, self.Part(rest.substr(0, whole ? bytes : line))));
    rest.remove_prefix(bytes);
  }
  return out.Done();
}

constexpr Named kMethods[] = {{"count", Count},
                              {"endswith", StartsWith<true>},
                              {"find", Find<false>},
                              {"index", Index<false>},
                              {"lstrip", Strip<true, false>},
                              {"partition", Partition<false>},
                              {"removeprefix", RemoveAffix<false>},
                              {"removesuffix", RemoveAffix<true>},
                              {"rfind", Find<true>},
                              {"rindex", Index<true>},
                              {"rpartition", Partition<true>},
                              {"rsplit", Split<true>},
                              {"rstrip", Strip<false, true>},
                              {"split", Split<false>},
                              {"splitlines", SplitLines},
                              {"startswith", StartsWith<false>},
                              {"strip", Strip<true, true>}};

}  // namespace

size_t LineLength(string_view text, size_t* with_end) {
  for (size_t at = 0; at < text.size();) {
    int length = 0;
    const char32_t c = unicode::DecodeUtf8(text.data() + at, &length);
    const bool end =
        (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
    if (end) {
      *with_end = at + length;
      if (c == '\r' && *with_end < text.size() && text[*with_end] == '\n') ++*with_end;
      return at;
    }
    at += length;
  }
  *with_end = text.size();
  return text.size();
}

std::span<const Named> TextMethods() { return kMethods; }

}  // namespace penstock::chat::jinja
