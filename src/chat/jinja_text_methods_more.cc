// Methods of str that change case, fill, join and ask.
#include <algorithm>

#include "chat/jinja_builtins.h"
#include "chat/jinja_lexer.h"
#include "chat/jinja_path.h"
#include "chat/jinja_search.h"
#include "chat/letter_case.h"
#include "unicode/lower_case.h"
#include "unicode/unicode.h"
#include "unicode/utf8.h"

namespace penstock::chat::jinja {
namespace {

using std::string_view;

void NoArguments(const Args& args) {
  if (!args.empty()) Fail("a method without parameters is called with arguments");
}

Value SameKind(const Value& self, Value text) {
  return self.is_markup() ? std::move(text).AsMarkup() : text;
}

// ---- Case

Value Lower(Interp& interp, const Value& self, const Args& args) {
  NoArguments(args);
  interp.heap().CheckMemory(self.text().size() * 3);
  return SameKind(self, interp.Text(unicode::LowerCase(self.text())));
}

// change(c, bytes, &out) appends what becomes of a character, which has these bytes.
template <typename Change>
Value Changed(Interp& interp, const Value& self, Change change) {
  constexpr size_t kPieceBytes = 4096;  // so that no more is uncounted
  const string_view text = self.text();
  TextBuilder out(interp.heap());
  std::string piece;
  for (size_t at = 0; at < text.size();) {
    int length = 0;
    const char32_t c = unicode::DecodeUtf8(text.data() + at, &length);
    change(c, text.substr(at, length), &piece);
    at += length;
    if (piece.size() < kPieceBytes && at < text.size()) continue;
    out.Add(piece);
    piece.clear();
  }
  return SameKind(self, out.Done());
}

Value Upper(Interp& interp, const Value& self, const Args& args) {
  NoArguments(args);
  return Changed(interp, self,
                 [](char32_t c, string_view, std::string* out) { AppendUpperCase(c, out); });
}

Value Capitalize(Interp& interp, const Value& self, const Args& args) {
  NoArguments(args);
  const string_view text = self.text();
  if (text.empty()) return self;
  int length = 0;
  std::string first;
  AppendTitleCase(unicode::DecodeUtf8(text.data(), &length), &first);
  const Value rest = Folded(interp, self.Part(text.substr(length)), true);
  TextBuilder out(interp.heap());
  out.Add(first);
  out.Add(rest.text());
  return SameKind(self, out.Done());
}

bool IsCased(char32_t c) { return IsLowerLetter(c) || IsUpperLetter(c) || IsTitleLetter(c); }

// Python's str.title: a letter behind a letter is lower case.
Value Title(Interp& interp, const Value& self, const Args& args) {
  NoArguments(args);
  bool inside = false;
  return Changed(interp, self, [&](char32_t c, string_view bytes, std::string* out) {
    if (inside) {
      *out += unicode::LowerCase(bytes);
    } else {
      AppendTitleCase(c, out);
    }
    inside = IsCased(c);
  });
}

Value SwapCase(Interp& interp, const Value& self, const Args& args) {
  NoArguments(args);
  return Changed(interp, self, [](char32_t c, string_view bytes, std::string* out) {
    if (IsUpperLetter(c)) {
      *out += unicode::LowerCase(bytes);
    } else if (IsLowerLetter(c)) {
      AppendUpperCase(c, out);
    } else {
      *out += bytes;
    }
  });
}

// ---- Filling

enum class Fill { kLeft, kRight, kBoth };

template <Fill fill>
Value Justify(Interp& interp, const Value& self, const Args& args) {
  Value given[2];
  args.Bind("ljust", {"width", "fillchar"}, 1, given);
  const string_view sign = TextArg(given[1], " ");
  if (unicode::Utf8Count(sign) != 1) Fail("the fill character must be one character");
  const int64_t missing = IntArg(given[0], 0) - interp.Length(self);
  if (missing <= 0) return self;
  // Python puts the odd one to the left where the width is odd.
  const int64_t both = missing / 2 + (missing & (missing + interp.Length(self)) & 1);
  const int64_t left = fill == Fill::kRight ? 0 : fill == Fill::kLeft ? missing : both;
  interp.heap().CheckMemory(missing > INT64_MAX / 4 ? SIZE_MAX : missing * sign.size());
  TextBuilder out(interp.heap());
  for (int64_t i = 0; i < left; ++i) out.Add(sign);
  out.Add(self.text());
  for (int64_t i = left; i < missing; ++i) out.Add(sign);
  return SameKind(self, out.Done());
}

Value ZeroFill(Interp& interp, const Value& self, const Args& args) {
  Value width;
  args.Bind("zfill", {"width"}, 1, &width);
  const int64_t missing = IntArg(width, 0) - interp.Length(self);
  if (missing <= 0) return self;
  string_view text = self.text();
  TextBuilder out(interp.heap());
  if (text.starts_with('-') || text.starts_with('+')) {
    out.Add(text.substr(0, 1));
    text.remove_prefix(1);
  }
  out.Add(static_cast<size_t>(missing), '0');
  out.Add(text);
  return SameKind(self, out.Done());
}

Value Join(Interp& interp, const Value& self, const Args& args) {
  Value given;
  args.Bind("join", {"iterable"}, 1, &given);
  TextBuilder out(interp.heap());
  Walker walker(interp, given);
  bool first = true;
  for (Value item; walker.Next(&item); first = false) {
    if (self.is_markup()) item = interp.Escape(item);
    if (!item.is_string()) Fail("what is joined must be strings");
    if (!first) out.Add(self.text());
    out.Add(item.text());
  }
  return SameKind(self, out.Done());
}

Value Replace(Interp& interp, const Value& self, const Args& args) {
  Value given[3];
  args.Bind("replace", {"old", "new", "count"}, 2, given);
  if (!given[0].is_string() || !given[1].is_string()) Fail("replace: strings are expected");
  const Value fresh = self.is_markup() ? interp.Escape(given[1]) : given[1];
  const string_view old = given[0].text();
  const string_view text = self.text();
  int64_t left = IntArg(given[2], -1);
  if (left < 0) left = INT64_MAX;
  interp.heap().StepBytes(text.size());
  TextBuilder out(interp.heap());
  size_t at = 0;
  if (old.empty()) {  // before every character and at the end
    while (left-- > 0) {
      out.Add(fresh.text());
      interp.Step();
      if (at >= text.size()) break;
      const int length = unicode::Utf8Length(text[at]);
      out.Add(text.substr(at, length));
      at += length;
    }
    out.Add(text.substr(std::min(at, text.size())));
    return SameKind(self, out.Done());
  }
  for (size_t found; left > 0 && (found = FindText(text, old, at)) != text.npos; --left) {
    interp.Step();
    out.Add(text.substr(at, found - at));
    out.Add(fresh.text());
    at = found + old.size();
  }
  if (at == 0) return self;
  out.Add(text.substr(at));
  return SameKind(self, out.Done());
}

Value FormatMap(Interp& interp, const Value& self, const Args& args) {
  Value map;
  args.Bind("format_map", {"mapping"}, 1, &map);
  if (!map.is_dict()) Fail("format_map: a dict is expected");
  const auto& entries = map.as<DictObject>().entries;
  const ScopedBytes held(interp.heap(), HeapBytes(entries.size() * sizeof entries[0]));
  Args named;
  named.named.reserve(entries.size());
  for (const auto& [name, value] : entries) {
    if (name.is_string()) named.named.emplace_back(name, value);
  }
  return FormatBraces(interp, self, named);
}

// ---- Questions

// Whether all characters are so; `empty` where there are none.
template <typename Is>
Value All(Interp& interp, const Value& self, const Args& args, bool empty, Is is) {
  NoArguments(args);
  const string_view text = self.text();
  interp.heap().StepBytes(text.size());
  if (text.empty()) return Value::Bool(empty);
  for (size_t at = 0; at < text.size();) {
    int length = 0;
    if (!is(unicode::DecodeUtf8(text.data() + at, &length))) return Value::Bool(false);
    at += length;
  }
  return Value::Bool(true);
}

bool IsAlpha(char32_t c) {
  const unicode::UnicodeCategory category = unicode::UnicodeCategoryOf(c);
  return category >= unicode::kCatLl && category <= unicode::kCatLu;
}
bool IsDecimal(char32_t c) { return unicode::UnicodeCategoryOf(c) == unicode::kCatNd; }
bool IsDigit(char32_t c) {  // superscripts, too
  return IsDecimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 ||
         (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089);
}
bool IsNumeric(char32_t c) {
  const unicode::UnicodeCategory category = unicode::UnicodeCategoryOf(c);
  return category == unicode::kCatNd || category == unicode::kCatNl || category == unicode::kCatNo;
}

template <bool (*is)(char32_t)>
Value Ask(Interp& interp, const Value& self, const Args& args) {
  return All(interp, self, args, false, is);
}
bool IsAlphaNumeric(char32_t c) { return IsAlpha(c) || IsNumeric(c); }

Value IsAscii(Interp& interp, const Value& self, const Args& args) {
  return All(interp, self, args, true, [](char32_t c) { return c < 0x80; });
}

Value IsPrintable(Interp& interp, const Value& self, const Args& args) {
  return All(interp, self, args, true, [](char32_t c) {
    const unicode::UnicodeCategory category = unicode::UnicodeCategoryOf(c);
    return c == ' ' || (category > unicode::kCatCs && category < unicode::kCatZl);
  });
}

template <bool upper>
Value IsCase(Interp& interp, const Value& self, const Args& args) {
  NoArguments(args);
  interp.heap().StepBytes(self.text().size());
  return Value::Bool(HasCase(self.text(), upper));
}

Value IsTitle(Interp& interp, const Value& self, const Args& args) {
  NoArguments(args);
  const string_view text = self.text();
  interp.heap().StepBytes(text.size());
  bool any = false, inside = false;
  for (size_t at = 0; at < text.size();) {
    int length = 0;
    const char32_t c = unicode::DecodeUtf8(text.data() + at, &length);
    at += length;
    const bool big = IsUpperLetter(c) || IsTitleLetter(c);
    if (big == inside && (big || IsLowerLetter(c))) return Value::Bool(false);
    inside = big || IsLowerLetter(c);
    any |= inside;
  }
  return Value::Bool(any);
}

constexpr Named kMoreMethods[] = {{"capitalize", Capitalize},
                                  {"casefold", Lower},
                                  {"center", Justify<Fill::kBoth>},
                                  {"format", FormatBraces},
                                  {"format_map", FormatMap},
                                  {"isalnum", Ask<IsAlphaNumeric>},
                                  {"isalpha", Ask<IsAlpha>},
                                  {"isascii", IsAscii},
                                  {"isdecimal", Ask<IsDecimal>},
                                  {"isdigit", Ask<IsDigit>},
                                  {"islower", IsCase<false>},
                                  {"isnumeric", Ask<IsNumeric>},
                                  {"isprintable", IsPrintable},
                                  {"isspace", Ask<IsPythonSpace>},
                                  {"istitle", IsTitle},
                                  {"isupper", IsCase<true>},
                                  {"join", Join},
                                  {"ljust", Justify<Fill::kRight>},
                                  {"lower", Lower},
                                  {"replace", Replace},
                                  {"rjust", Justify<Fill::kLeft>},
                                  {"swapcase", SwapCase},
                                  {"title", Title},
                                  {"upper", Upper},
                                  {"zfill", ZeroFill}};

}  // namespace

bool HasCase(string_view text, bool upper) {
  bool any = false;
  for (size_t at = 0; at < text.size();) {
    int length = 0;
    const char32_t c = unicode::DecodeUtf8(text.data() + at, &length);
    at += length;
    if ((upper ? IsLowerLetter(c) : IsUpperLetter(c)) || IsTitleLetter(c)) return false;
    any |= upper ? IsUpperLetter(c) : IsLowerLetter(c);
  }
  return any;
}

std::span<const Named> TextLineMethods() { return kMoreMethods; }

}  // namespace penstock::chat::jinja
