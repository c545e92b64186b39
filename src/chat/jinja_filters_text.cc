// Filters that give texts and numbers.
#include <algorithm>
#include <array>
#include <cmath>

#include "chat/jinja_builtins.h"
#include "chat/jinja_lexer.h"
#include "chat/jinja_path.h"
#include "chat/letter_case.h"
#include "unicode/unicode.h"
#include "unicode/utf8.h"

namespace penstock::chat::jinja {
namespace {

using std::string_view;

// A filter that is the method of str(value).
template <char... name>
Value AsMethod(Interp& interp, const Value& input, const Args& args) {
  static constexpr char kName[] = {name..., 0};
  const Value text = interp.Str(input);
  return FindMethod(Kind::kString, kName)->function(interp, text, args);
}

Value Trim(Interp& interp, const Value& input, const Args& args) {
  Value chars;
  args.Bind("trim", {"chars"}, 0, &chars);
  Args given;
  if (!chars.is_missing()) given.positional.push_back(chars);
  return FindMethod(Kind::kString, "strip")->function(interp, interp.Str(input), given);
}

Value Center(Interp& interp, const Value& input, const Args& args) {
  Value width;
  args.Bind("center", {"width"}, 0, &width);
  Args given;
  given.positional.push_back(width.is_missing() ? Value::Int(80) : width);
  return FindMethod(Kind::kString, "center")->function(interp, interp.Str(input), given);
}

Value Replace(Interp& interp, const Value& input, const Args& args) {
  Value given[3];
  args.Bind("replace", {"old", "new", "count"}, 2, given);
  Args plain;
  plain.positional = {interp.SafeStr(given[0]), interp.SafeStr(given[1])};
  if (!given[2].is_missing() && !given[2].is_none()) plain.positional.push_back(given[2]);
  return FindMethod(Kind::kString, "replace")->function(interp, interp.SafeStr(input), plain);
}

// Unlike str.title: words begin behind white space and some brackets only.
Value Title(Interp& interp, const Value& input, const Args& args) {
  args.Bind("title", {}, 0, nullptr);
  const Value value = interp.Str(input);
  const string_view text = value.text();
  interp.heap().StepBytes(text.size() * 16);
  TextBuilder out(interp.heap());
  size_t rest = text.size();  // where the rest of a word begins; the end: in none
  const auto flush = [&](size_t end) {
    if (rest < end) out.Add(Folded(interp, value.Part(text.substr(rest, end - rest)), true).text());
    rest = text.size();
  };
  bool begins = true;
  for (size_t at = 0; at < text.size();) {
    int length = 0;
    const char32_t c = unicode::DecodeUtf8(text.data() + at, &length);
    const string_view bytes = text.substr(at, length);
    if (IsPythonSpace(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<') {
      flush(at);
      out.Add(bytes);
      begins = true;
    } else if (begins) {
      std::string upper;
      AppendUpperCase(c, &upper);
      out.Add(upper);
      begins = false;
      rest = at + length;
    }
    at += length;
  }
  flush(text.size());
  return out.Done();
}

Value Indent(Interp& interp, const Value& input, const Args& args) {
  Value given[3];
  args.Bind("indent", {"width", "first", "blank"}, 0, given);
  if (!input.is_string()) Fail("indent: a string is expected");
  std::string spaces;
  string_view indent = spaces;
  ScopedBytes held(interp.heap());
  if (given[0].is_string()) {
    indent = given[0].text();
  } else {
    const auto width = static_cast<size_t>(std::max<int64_t>(IntArg(given[0], 4), 0));
    held.Add(width);
    spaces.assign(width, ' ');
    indent = spaces;
  }
  const bool first = !given[1].is_missing() && interp.Truth(given[1]);
  const bool blank = !given[2].is_missing() && interp.Truth(given[2]);
  GrowingText all(interp.heap());
  all.Add(input.text());
  all.Add("\n");
  TextBuilder out(interp.heap());
  if (first) out.Add(indent);
  bool at_first = true;
  for (string_view rest = all.view(); !rest.empty(); at_first = false) {
    interp.Step();
    size_t bytes = 0;
    const string_view line = rest.substr(0, LineLength(rest, &bytes));
    if (!at_first) {
      out.Add("\n");
      if (blank || !line.empty()) out.Add(indent);
    }
    out.Add(line);
    rest.remove_prefix(bytes);
  }
  Value text = out.Done();
  return input.is_markup() ? std::move(text).AsMarkup() : text;
}

Value Truncate(Interp& interp, const Value& input, const Args& args) {
  Value given[4];
  args.Bind("truncate", {"length", "killwords", "end", "leeway"}, 0, given);
  const int64_t length = IntArg(given[0], 255);
  const Value end = given[2].is_missing() ? Value::Borrowed("...") : given[2];
  const int64_t leeway = given[3].is_missing() || given[3].is_none() ? 5 : IntArg(given[3], 5);
  const int64_t room = length - interp.Length(end);
  if (room < 0) Fail("truncate: the length is shorter than the end");
  if (leeway < 0) Fail("truncate: the leeway is negative");
  if (interp.Length(input) - leeway <= length) return input;
  if (!input.is_string()) Fail("truncate: a string is expected");
  Value cut = interp.Slice(input, Value::None(), Value::Int(room), Value::None());
  if (given[1].is_missing() || !interp.Truth(given[1])) {
    const size_t space = cut.text().rfind(' ');
    if (space != string_view::npos) cut = cut.Part(cut.text().substr(0, space));
  }
  return interp.Binary(ExprKind::kAdd, cut, end);
}

Value WordCount(Interp& interp, const Value& input, const Args& args) {
  args.Bind("wordcount", {}, 0, nullptr);
  const Value value = interp.Str(input);
  const string_view text = value.text();
  interp.heap().StepBytes(text.size());
  int64_t count = 0;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    int length = 0;
    const char32_t c = unicode::DecodeUtf8(text.data() + at, &length);
    at += length;
    const unicode::UnicodeCategory category = unicode::UnicodeCategoryOf(c);
    const bool word = c == '_' || (category >= unicode::kCatLl && category <= unicode::kCatLu) ||
                      category == unicode::kCatNd || category == unicode::kCatNl ||
                      category == unicode::kCatNo;
    count += word && !inside;
    inside = word;
  }
  return Value::Int(count);
}

Value String(Interp& interp, const Value& input, const Args& args) {
  args.Bind("string", {}, 0, nullptr);
  return interp.Str(input);
}

Value Safe(Interp& interp, const Value& input, const Args& args) {
  args.Bind("safe", {}, 0, nullptr);
  return interp.Str(input).AsMarkup();
}

Value Escape(Interp& interp, const Value& input, const Args& args) {
  args.Bind("escape", {}, 0, nullptr);
  return interp.Escape(input);
}

Value ForceEscape(Interp& interp, const Value& input, const Args& args) {
  args.Bind("forceescape", {}, 0, nullptr);
  return interp.Escape(interp.SafeStr(input));
}

void AppendUrlQuoted(Interp& interp, const Value& value, bool query, TextBuilder* out) {
  static constexpr string_view kHex = "0123456789ABCDEF";
  const Value text = interp.Str(value);
  for (const char c : text.text()) {
    const bool plain = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') ||
                       string_view("_.-~").find(c) != string_view::npos || (c == '/' && !query);
    const auto byte = static_cast<unsigned char>(c);
    if (plain) {
      out->Add(1, c);
    } else if (c == ' ' && query) {
      out->Add(1, '+');
    } else {
      out->Add(std::string{'%', kHex[byte >> 4], kHex[byte & 15]});
    }
  }
}

Value UrlEncode(Interp& interp, const Value& input, const Args& args) {
  args.Bind("urlencode", {}, 0, nullptr);
  TextBuilder out(interp.heap());
  if (input.is_string() || !interp.IsIterable(input)) {
    AppendUrlQuoted(interp, input, false, &out);
    return out.Done();
  }
  Value pairs = input;
  if (input.is_dict()) {
    pairs = Value(Kind::kView, interp.heap().New<ViewObject>(input, ViewObject::What::kItems));
  }
  bool first = true;
  Walker walker(interp, pairs);
  for (Value pair; walker.Next(&pair); first = false) {
    const ListBuilder parts = interp.ToItems(pair);
    if (parts.items().size() != 2) Fail("urlencode: pairs are expected");
    if (!first) out.Add("&");
    AppendUrlQuoted(interp, parts.items()[0], true, &out);
    out.Add("=");
    AppendUrlQuoted(interp, parts.items()[1], true, &out);
  }
  return out.Done();
}

Value FileSize(Interp& interp, const Value& input, const Args& args) {
  Value binary;
  args.Bind("filesizeformat", {"binary"}, 0, &binary);
  const bool by_1024 = !binary.is_missing() && interp.Truth(binary);
  const double base = by_1024 ? 1024 : 1000;
  double bytes = input.is_number() ? input.real() : 0;
  if (!input.is_number() && (!input.is_string() || !ParseFloat(input.text(), &bytes))) {
    Fail("filesizeformat: a number is expected");
  }
  if (bytes == 1) return Value::Borrowed("1 Byte");
  if (bytes < base) {
    if (!std::isfinite(bytes) || std::fabs(bytes) > 9e18) Fail("filesizeformat: no such size");
    return interp.Text(std::to_string(static_cast<int64_t>(bytes)) + " Bytes");
  }
  static constexpr string_view kPrefixes = "kMGTPEZY";
  double unit = base * base;
  size_t i = 0;
  for (; i + 1 < kPrefixes.size() && bytes >= unit; ++i) unit *= base;
  std::array<char, 400> buffer;
  const int size = std::snprintf(buffer.data(), buffer.size(), "%.1f ", base * bytes / unit);
  std::string out(buffer.data(), std::min<size_t>(size, buffer.size() - 1));
  out += by_1024 && kPrefixes[i] == 'k' ? 'K' : kPrefixes[i];
  return interp.Text(out + (by_1024 ? "iB" : "B"));
}

// ---- Numbers

Value Abs(Interp& interp, const Value& input, const Args& args) {
  args.Bind("abs", {}, 0, nullptr);
  if (!input.is_number()) Fail("abs: a number is expected");
  if (input.is_float()) return Value::Float(std::fabs(input.real()));
  return input.integer() < 0 ? interp.Negate(input) : Value::Int(input.integer());
}

bool TruncatedInt(double number, int64_t* whole) {
  if (!std::isfinite(number)) return false;
  if (std::fabs(number) >= 9.2233720368547758e18) {
    Fail("integers beyond 64 bits are not supported");
  }
  *whole = static_cast<int64_t>(number);
  return true;
}

Value Int(Interp&, const Value& input, const Args& args) {
  Value given[2];
  args.Bind("int", {"default", "base"}, 0, given);
  int64_t whole = 0;
  double number = 0;
  if (input.is_undefined()) Fail("'" + Shown(input.text()) + "' is undefined");
  if (input.is_int()) return Value::Int(input.integer());
  if (input.is_string()) {
    if (ParseInt(input.text(), IntArg(given[1], 10), &whole)) return Value::Int(whole);
    if (ParseFloat(input.text(), &number) && TruncatedInt(number, &whole)) {
      return Value::Int(whole);
    }
  }
  if (input.is_float()) {
    if (std::isinf(input.real())) Fail("int: infinity is not an integer");
    if (TruncatedInt(input.real(), &whole)) return Value::Int(whole);
  }
  return given[0].is_missing() ? Value::Int(0) : given[0];
}

Value Float(Interp&, const Value& input, const Args& args) {
  Value absent;
  args.Bind("float", {"default"}, 0, &absent);
  if (input.is_undefined()) Fail("'" + Shown(input.text()) + "' is undefined");
  if (input.is_number()) return Value::Float(input.real());
  double number = 0;
  if (input.is_string() && ParseFloat(input.text(), &number)) return Value::Float(number);
  return absent.is_missing() ? Value::Float(0) : absent;
}

Value Round(Interp& interp, const Value& input, const Args& args) {
  Value given[2];
  args.Bind("round", {"precision", "method"}, 0, given);
  const string_view method = TextArg(given[1], "common");
  if (method != "common" && method != "ceil" && method != "floor") {
    Fail("round: the method is common, ceil or floor");
  }
  if (!input.is_number()) Fail("round: a number is expected");
  interp.Step(100);  // it goes by way of a long text
  const bool automatic = given[0].is_none();
  const int64_t digits = automatic ? 0 : IntArg(given[0], 0);
  if (method == "common") {
    if (input.is_int() && digits >= 0) return Value::Int(input.integer());
    const double rounded = RoundFloat(input.real(), digits);
    int64_t whole = 0;
    if (!input.is_int() && !automatic) return Value::Float(rounded);
    if (!TruncatedInt(rounded, &whole)) Fail("round: not a finite number");
    return Value::Int(whole);
  }
  const Value scale = interp.Binary(ExprKind::kPow, Value::Int(10), Value::Int(digits));
  const Value scaled = interp.Binary(ExprKind::kMul, input, scale);
  int64_t whole = 0;
  const double number = scaled.real();
  const double cut = method == "ceil" ? std::ceil(number) : std::floor(number);
  if (scaled.is_int()) {
    whole = scaled.integer();
  } else if (!TruncatedInt(cut, &whole)) {
    Fail("round: not a finite number");
  }
  return interp.Binary(ExprKind::kDiv, Value::Int(whole), scale);
}

Value Format(Interp& interp, const Value& input, const Args& args) {
  if (!args.named.empty() && !args.positional.empty()) {
    Fail("format: positional and named arguments do not go together");
  }
  Value values;
  if (args.named.empty()) {
    interp.heap().CheckMemory(args.positional.size() * sizeof(Value));
    values = interp.heap().Tuple(args.positional);
  } else {
    values = interp.NewDict();
    for (const auto& [name, value] : args.named) {
      values.as<DictObject>().Set(interp, name, value);
    }
  }
  return FormatPercent(interp, interp.Str(input), values);
}

constexpr Filter kFilters[] = {
    {"abs", Abs},
    {"capitalize", AsMethod<'c', 'a', 'p', 'i', 't', 'a', 'l', 'i', 'z', 'e'>},
    {"center", Center},
    {"e", Escape},
    {"escape", Escape},
    {"filesizeformat", FileSize},
    {"float", Float},
    {"forceescape", ForceEscape},
    {"format", Format},
    {"from_json", FromJson},
    {"indent", Indent},
    {"int", Int},
    {"lower", AsMethod<'l', 'o', 'w', 'e', 'r'>},
    {"replace", Replace},
    {"round", Round},
    {"safe", Safe},
    {"string", String},
    {"title", Title},
    {"tojson", ToJson},
    {"trim", Trim},
    {"truncate", Truncate},
    {"upper", AsMethod<'u', 'p', 'p', 'e', 'r'>},
    {"urlencode", UrlEncode},
    {"wordcount", WordCount}};

}  // namespace

std::span<const Filter> TextFilters() { return kFilters; }

}  // namespace penstock::chat::jinja
