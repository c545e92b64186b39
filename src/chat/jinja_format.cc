// str.format: replacement fields, and the small language of their specifications.
#include <algorithm>
#include <cmath>

#include "chat/jinja_builtins.h"
#include "chat/jinja_number_format.h"
#include "unicode/utf8.h"

namespace penstock::chat::jinja {
namespace {

using std::string_view;

int TakeNumber(string_view* text) {
  int64_t number = 0;
  while (!text->empty() && (*text)[0] >= '0' && (*text)[0] <= '9') {
    number = number * 10 + ((*text)[0] - '0');
    if (number > kFormatWidthMax) FailLimit("a format is too wide");
    text->remove_prefix(1);
  }
  return static_cast<int>(number);
}

bool IsAlign(char c) { return c == '<' || c == '>' || c == '=' || c == '^'; }

FormatSpec ParseSpec(string_view text) {
  FormatSpec spec;
  const auto take = [&](string_view signs) {
    if (text.empty() || signs.find(text[0]) == signs.npos) return char{0};
    const char c = text[0];
    text.remove_prefix(1);
    return c;
  };
  const size_t first = text.empty() ? 0 : unicode::Utf8Length(text[0]);
  if (first > 0 && text.size() > first && IsAlign(text[first])) {
    spec.fill = text.substr(0, first);
    spec.align = text[first];
    text.remove_prefix(first + 1);
  } else {
    spec.align = take("<>=^");
  }
  if (const char sign = take("+- ")) spec.sign = sign;
  spec.alternate = take("#") != 0;
  if (!text.empty() && text[0] == '0') {
    text.remove_prefix(1);
    if (spec.align == 0) {
      spec.fill = "0";
      spec.align = '=';
    }
  }
  spec.width = TakeNumber(&text);
  spec.comma = take(",_");
  if (take(".") != 0) {
    if (text.empty() || text[0] < '0' || text[0] > '9') Fail("a format lacks its precision");
    spec.precision = TakeNumber(&text);
  }
  spec.type = text.empty() ? 0 : text[0];
  if (text.size() > 1) Fail("a format is not understood");
  return spec;
}

std::string SignOf(bool negative, char sign) {
  return negative ? "-" : sign == '-' ? "" : std::string(1, sign);
}

void FormatInt(const FormatSpec& spec, int64_t number, TextBuilder* to) {
  if (spec.precision >= 0) Fail("the format of an integer has no precision");
  const char type = spec.type == 0 || spec.type == 'n' ? 'd' : spec.type;
  if (type == 'c') {
    if (number < 0 || number > 0x10FFFF) Fail("no such character");
    std::string out;
    unicode::AppendUtf8(static_cast<char32_t>(number), &out);
    return AddPadded(spec, "", out, false, to);
  }
  if (string_view("dxXob").find(type) == string_view::npos) Fail("no such format of an integer");
  const uint64_t size = number < 0 ? 0 - static_cast<uint64_t>(number) : number;
  std::string head = SignOf(number < 0, spec.sign);
  if (spec.alternate && type != 'd') head += std::string("0") + type;
  AddPadded(spec, head, Grouped(IntDigits(size, type), spec.comma), true, to);
}

void FormatFloat(const FormatSpec& spec, double number, TextBuilder* to) {
  if (spec.type != 0 && string_view("eEfFgGn%").find(spec.type) == string_view::npos) {
    Fail("no such format of a number");
  }
  const std::string head = SignOf(std::signbit(number) && !std::isnan(number), spec.sign);
  const double size = std::fabs(number);
  std::string digits;
  if (spec.type == 0 && spec.precision < 0) {
    digits = FloatText(size);
  } else if (spec.type == 0) {  // like g, but with a digit behind the point
    digits = FloatDigits(size, 'g', std::max(spec.precision, 1), spec.alternate);
    if (digits.find_first_of(".en") == digits.npos) digits += ".0";
  } else if (spec.type == '%') {
    digits = FloatDigits(size * 100, 'f', spec.precision < 0 ? 6 : spec.precision, false) + "%";
  } else {
    const char type = spec.type == 'n' ? 'g' : spec.type;
    digits = FloatDigits(size, type, spec.precision < 0 ? 6 : spec.precision, spec.alternate);
  }
  AddPadded(spec, head, Grouped(digits, spec.comma), true, to);
}

Value FormatValue(Interp& interp, const Value& value, string_view text) {
  if (text.empty()) return interp.Str(value);
  const FormatSpec spec = ParseSpec(text);
  TextBuilder out(interp.heap());
  const bool number = value.is(Kind::kInt) || value.is(Kind::kBool);
  const bool as_float =
      spec.type != 0 && string_view("eEfFgG%").find(spec.type) != string_view::npos;
  if (value.is_float() || (number && as_float)) {
    FormatFloat(spec, value.real(), &out);
    return out.Done();
  }
  if (number) {
    FormatInt(spec, value.integer(), &out);
    return out.Done();
  }
  if (!value.is_string()) Fail("a value of this type takes no format");
  if ((spec.type != 0 && spec.type != 's') || spec.align == '=' || spec.sign != '-' ||
      spec.alternate || spec.comma != 0) {
    Fail("no such format of a string");
  }
  string_view cut = value.text();
  if (spec.precision >= 0) {
    size_t at = 0;
    for (int i = 0; i < spec.precision && at < cut.size(); ++i) at += unicode::Utf8Length(cut[at]);
    cut = cut.substr(0, at);
  }
  AddPadded(spec, "", cut, false, &out);
  return out.Done();
}

class Formatter {
 public:
  Formatter(Interp& interp, const Args& args) : interp_(interp), args_(args) {}

  Value Run(string_view text, int level) {
    if (level > 2) Fail("the fields of a format are nested too deeply");
    TextBuilder out(interp_.heap());
    while (!text.empty()) {
      interp_.Step();
      const size_t brace = text.find_first_of("{}");
      out.Add(text.substr(0, brace));
      if (brace == text.npos) break;
      const char c = text[brace];
      text.remove_prefix(brace + 1);
      if (text.starts_with(c)) {
        out.Add(1, c);
        text.remove_prefix(1);
        continue;
      }
      if (c == '}') Fail("a format has a single '}'");
      out.Add(Field(&text, level).text());
    }
    return out.Done();
  }

 private:
  // Behind a '{', up to the '}' that closes it.
  Value Field(string_view* text, int level) {
    int open = 1;
    size_t end = 0;
    for (; end < text->size() && open > 0; ++end) {
      open += (*text)[end] == '{' ? 1 : (*text)[end] == '}' ? -1 : 0;
    }
    if (open > 0) Fail("a field of a format does not end");
    const string_view field = text->substr(0, end - 1);
    text->remove_prefix(end);
    size_t name_end = 0;  // a ']' may hold any sign
    for (bool inside = false; name_end < field.size(); ++name_end) {
      const char c = field[name_end];
      if (c == '[') inside = true;
      if (c == ']') inside = false;
      if (!inside && (c == ':' || c == '!')) break;
    }
    Value value = Lookup(field.substr(0, name_end));
    string_view rest = field.substr(name_end);
    if (rest.starts_with('!')) {
      if (rest.size() < 2 || (rest.size() > 2 && rest[2] != ':')) Fail("a field is not understood");
      value = Converted(value, rest[1]);
      rest.remove_prefix(2);
    }
    if (rest.starts_with(':')) rest.remove_prefix(1);
    const Value spec =
        rest.find_first_of("{}") == rest.npos ? Value::Borrowed(rest) : Run(rest, level + 1);
    return FormatValue(interp_, value, spec.text());
  }
  Value Converted(const Value& value, char how) {
    if (how == 's') return interp_.Str(value);
    if (how != 'r') Fail("a field is not understood");
    TextBuilder out(interp_.heap());
    interp_.AppendRepr(value, &out);
    return out.Done();
  }
  Value Lookup(string_view name) {
    const size_t first_end = std::min(name.find_first_of(".["), name.size());
    Value value = First(name.substr(0, first_end));
    string_view rest = name.substr(first_end);
    while (!rest.empty()) {
      const bool item = rest[0] == '[';
      rest.remove_prefix(1);
      const size_t end = std::min(item ? rest.find(']') : rest.find_first_of(".["), rest.size());
      const Value part = interp_.Text(std::string(rest.substr(0, end)));
      if (part.text().empty() || (item && end == rest.size())) Fail("a field is not understood");
      rest.remove_prefix(end + item);
      int64_t index = 0;
      const bool digits = part.text().find_first_not_of("0123456789") == string_view::npos;
      if (!item) {
        value = interp_.Attribute(value, part);
      } else if (digits && ParseInt(part.text(), 10, &index)) {
        value = interp_.Item(value, Value::Int(index));
      } else {
        value = interp_.Item(value, part);
      }
      if (item && !rest.empty() && rest[0] != '.' && rest[0] != '[') {
        Fail("a field is not understood");
      }
    }
    return value;
  }
  Value First(string_view name) {
    int64_t index = 0;
    if (name.empty()) {
      if (next_ < 0) Fail("a format numbers its fields and does not");
      index = next_++;
    } else if (name.find_first_not_of("0123456789") == name.npos && ParseInt(name, 10, &index)) {
      if (next_ > 0) Fail("a format numbers its fields and does not");
      next_ = -1;
    } else {
      interp_.Step(args_.named.size() / 4);
      const Value* value = args_.Named(name);
      if (value == nullptr) Fail("a format has no value '" + Shown(name) + "'");
      return *value;
    }
    if (index >= static_cast<int64_t>(args_.positional.size())) {
      Fail("a format has more fields than values");
    }
    return args_.positional[index];
  }

  Interp& interp_;
  const Args& args_;
  int64_t next_ = 0;  // -1: fields are numbered
};

}  // namespace

std::string IntDigits(uint64_t number, char type) {
  const unsigned base = type == 'o' ? 8 : type == 'b' ? 2 : (type | 32) == 'x' ? 16 : 10;
  const char* const digits = type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string out;
  do {
    out.push_back(digits[number % base]);
    number /= base;
  } while (number > 0);
  std::reverse(out.begin(), out.end());
  return out;
}

std::string FloatDigits(double number, char type, int precision, bool alternate) {
  if (precision > kFormatWidthMax) FailLimit("a format is too wide");
  const bool upper = type >= 'A' && type <= 'Z';
  if (std::isnan(number)) return upper ? "NAN" : "nan";
  if (std::isinf(number)) return upper ? "INF" : "inf";
  const std::string format = std::string(alternate ? "%#.*" : "%.*") + type;
  std::string out(400 + precision, '\0');
  const int size = std::snprintf(out.data(), out.size(), format.c_str(), precision, number);
  out.resize(std::clamp<int>(size, 0, static_cast<int>(out.size()) - 1));
  return out;
}

std::string Grouped(const std::string& digits, char comma) {
  if (comma == 0) return digits;
  const size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
  std::string out;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % 3 == 0) out.push_back(comma);
    out.push_back(digits[i]);
  }
  return out + digits.substr(whole);
}

void AddPadded(const FormatSpec& spec, string_view head, string_view body, bool right,
               TextBuilder* out) {
  const auto size = static_cast<int64_t>(head.size() + unicode::Utf8Count(body));
  const int64_t missing = std::max<int64_t>(spec.width - size, 0);
  const auto fill = [&](int64_t count) {
    for (; count > 0; --count) out->Add(spec.fill);
  };
  const char align = spec.align != 0 ? spec.align : right ? '>' : '<';
  const int64_t before = align == '>' ? missing : align == '^' ? missing / 2 : 0;
  const int64_t between = align == '=' ? missing : 0;
  fill(before);
  out->Add(head);
  fill(between);
  out->Add(body);
  fill(missing - before - between);
}

Value FormatBraces(Interp& interp, const Value& text, const Args& args) {
  return Formatter(interp, args).Run(text.text(), 0);
}

}  // namespace penstock::chat::jinja
