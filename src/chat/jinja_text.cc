// str() and repr() of values; numbers from and to text.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "chat/jinja_builtins.h"
#include "chat/jinja_interp.h"
#include "chat/jinja_lexer.h"
#include "unicode/unicode.h"
#include "unicode/utf8.h"

namespace penstock::chat::jinja {
namespace {

bool IsPrintable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  switch (unicode::UnicodeCategoryOf(c)) {
    case unicode::kCatCc:
    case unicode::kCatCf:
    case unicode::kCatCn:
    case unicode::kCatCo:
    case unicode::kCatCs:
    case unicode::kCatZl:
    case unicode::kCatZp:
    case unicode::kCatZs:
      return false;
    default:
      return true;
  }
}

void AppendQuoted(std::string_view text, TextBuilder* out) {
  const bool single = text.find('\'') == text.npos || text.find('"') != text.npos;
  const char quote = single ? '\'' : '"';
  out->Add(1, quote);
  for (size_t at = 0; at < text.size();) {
    int length = 0;
    const char32_t c = unicode::DecodeUtf8(text.data() + at, &length);
    const std::string_view bytes = text.substr(at, length);
    at += length;
    if (c == '\\' || c == static_cast<unsigned char>(quote)) {
      out->Add(1, '\\');
      out->Add(bytes);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out->Add(c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
    } else if (IsPrintable(c)) {
      out->Add(bytes);
    } else {
      char hex[16];
      const char* format = c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x";
      std::snprintf(hex, sizeof hex, format, static_cast<unsigned>(c));
      out->Add(hex);
    }
  }
  out->Add(1, quote);
}

void AppendRange(const RangeObject& range, TextBuilder* out) {
  out->Add("range(" + std::to_string(range.start) + ", " + std::to_string(range.stop));
  if (range.step != 1) out->Add(", " + std::to_string(range.step));
  out->Add(")");
}

const char* ViewName(ViewObject::What what) {
  switch (what) {
    case ViewObject::What::kKeys:
      return "dict_keys([";
    case ViewObject::What::kValues:
      return "dict_values([";
    default:
      return "dict_items([";
  }
}

std::string MacroText(const MacroDef& def) {
  return def.name.empty() ? "<Macro anonymous>" : "<Macro '" + def.name + "'>";
}

std::string LoopText(LoopObject& loop) {
  return "<LoopContext " + std::to_string(loop.index0 + 1) + "/" + std::to_string(loop.Length()) +
         ">";
}

// Digits with single underscores between them, which are dropped; false on anything else.
bool CopyDigits(std::string_view text, std::string* out) {
  bool digit = false;
  for (const char c : text) {
    if (c == '_') {
      if (!digit) return false;
      digit = false;
      continue;
    }
    out->push_back(c);
    digit = true;
  }
  return digit;
}

}  // namespace

Value Interp::Str(const Value& value) {
  if (value.is_string()) return value;
  TextBuilder text(heap_);
  AppendStr(value, &text);
  return text.Done();
}

Value Interp::SafeStr(const Value& value) { return Str(value).AsPlain(); }

void Interp::AppendStr(const Value& value, TextBuilder* out) {
  if (value.is_string()) {
    out->Add(value.text());
  } else if (!value.is_undefined()) {
    AppendRepr(value, out);
  }
}

void Interp::AppendRepr(const Value& value, TextBuilder* out) {
  Step();
  const Deeper deeper(*this);
  const auto list = [&](const auto& items, auto&& add) {
    bool first = true;
    for (const auto& item : items) {
      if (!first) out->Add(", ");
      first = false;
      add(item);
    }
  };
  const auto add = [&](const Value& item) { AppendRepr(item, out); };
  switch (value.kind()) {
    case Kind::kUndefined:
      return out->Add("Undefined");
    case Kind::kNone:
      return out->Add("None");
    case Kind::kBool:
      return out->Add(value.integer() != 0 ? "True" : "False");
    case Kind::kInt:
      return out->Add(std::to_string(value.integer()));
    case Kind::kFloat:
      return out->Add(FloatText(value.real()));
    case Kind::kString:
      heap_.StepBytes(value.text().size() * 4);
      if (value.is_markup()) out->Add("Markup(");
      AppendQuoted(value.text(), out);
      if (value.is_markup()) out->Add(")");
      return;
    case Kind::kList:
    case Kind::kTuple: {
      const auto& items = value.as<ListObject>().items;
      const bool tuple = value.is(Kind::kTuple);
      out->Add(tuple ? "(" : "[");
      list(items, add);
      return out->Add(!tuple ? "]" : items.size() == 1 ? ",)" : ")");
    }
    case Kind::kDict:
      out->Add("{");
      list(value.as<DictObject>().entries, [&](const auto& entry) {
        AppendRepr(entry.first, out);
        out->Add(": ");
        AppendRepr(entry.second, out);
      });
      return out->Add("}");
    case Kind::kRange:
      return AppendRange(value.as<RangeObject>(), out);
    case Kind::kView:
      out->Add(ViewName(value.as<ViewObject>().what));
      list(ToItems(value).items(), add);
      return out->Add("])");
    case Kind::kNamespace:
      out->Add("<Namespace ");
      AppendRepr(value.as<NamespaceObject>().attributes, out);
      return out->Add(">");
    case Kind::kMacro:
      return out->Add(MacroText(*value.as<MacroObject>().def));
    case Kind::kLoop:
      return out->Add(LoopText(value.as<LoopObject>()));
    case Kind::kIterator:
      return out->Add("<" + std::string(value.as<IteratorObject>().type) + " object>");
    case Kind::kFunction:
      return out->Add("<function " + std::string(value.as<FunctionObject>().name) + ">");
    default:
      return out->Add("<object>");
  }
}

Value Interp::Escape(const Value& value) {
  if (value.is_markup()) return value;
  const Value plain = Str(value);
  const std::string_view text = plain.text();
  heap_.StepBytes(text.size());
  if (text.find_first_of("&<>'\"") == text.npos) return Value(plain).AsMarkup();
  TextBuilder out(heap_);
  for (const char c : text) {
    switch (c) {
      case '&':
        out.Add("&amp;");
        break;
      case '<':
        out.Add("&lt;");
        break;
      case '>':
        out.Add("&gt;");
        break;
      case '\'':
        out.Add("&#39;");
        break;
      case '"':
        out.Add("&#34;");
        break;
      default:
        out.Add(1, c);
    }
  }
  return out.Done().AsMarkup();
}

// The fewest digits that read back, with an exponent below 1e-4 and from 1e16 on.
std::string FloatText(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer{};  // what follows the number ends it
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number,
                                 std::chars_format::scientific)
                       .ptr;
  const std::string_view text(buffer.data(), end - buffer.data());
  const size_t e = text.find('e');
  std::string digits;
  std::string out = text[0] == '-' ? "-" : "";
  for (const char c : text.substr(0, e)) {
    if (c >= '0' && c <= '9') digits.push_back(c);
  }
  const int exponent = std::atoi(text.data() + e + 1);
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (count > 1) out += "." + digits.substr(1);
    const int size = std::abs(exponent);
    return out + (exponent < 0 ? "e-" : "e+") + (size < 10 ? "0" : "") + std::to_string(size);
  }
  if (exponent < 0) return out + "0." + std::string(-exponent - 1, '0') + digits;
  if (count <= exponent + 1) return out + digits + std::string(exponent + 1 - count, '0') + ".0";
  return out + digits.substr(0, exponent + 1) + "." + digits.substr(exponent + 1);
}

double RoundFloat(double number, int64_t digits) {
  if (!std::isfinite(number) || digits > 323) return number;
  if (digits < -308) return std::copysign(0.0, number);
  if (digits >= 0) {  // printf rounds the exact value, half to even
    std::string buffer(400 + digits, '\0');
    const int size =
        std::snprintf(buffer.data(), buffer.size(), "%.*f", static_cast<int>(digits), number);
    buffer.resize(std::clamp<int>(size, 0, static_cast<int>(buffer.size()) - 1));
    return std::strtod(buffer.c_str(), nullptr);
  }
  const double scale = std::pow(10.0, static_cast<double>(-digits));
  return std::nearbyint(number / scale) * scale;
}

bool ParseInt(std::string_view text, int64_t base, int64_t* number) {
  if (base != 0 && (base < 2 || base > 36)) return false;
  text = StripRight(StripLeft(text));
  const bool minus = text.starts_with('-');
  if (minus || text.starts_with('+')) text.remove_prefix(1);
  if (text.size() > 1 && text[0] == '0') {
    const char kind = char(text[1] | 32);
    const int64_t named = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
    if (named != 0 && (base == 0 || base == named)) {
      base = named;
      text.remove_prefix(2);
      if (text.starts_with('_')) text.remove_prefix(1);
    } else if (base == 0 && text.find_first_not_of("0_") != text.npos) {
      return false;
    }
  }
  std::string digits = minus ? "-" : "";
  if (!CopyDigits(text, &digits)) return false;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), *number, base == 0 ? 10 : base);
  if (error == std::errc::result_out_of_range && end == digits.data() + digits.size()) {
    Fail("integers beyond 64 bits are not supported");
  }
  return error == std::errc() && end == digits.data() + digits.size();
}

bool ParseFloat(std::string_view text, double* number) {
  text = StripRight(StripLeft(text));
  std::string clean;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t at) {
      return at < text.size() && text[at] >= '0' && text[at] <= '9';
    };
    if (text[i] != '_') {
      clean.push_back(text[i]);
    } else if (i == 0 || !digit(i - 1) || !digit(i + 1)) {
      return false;
    }
  }
  std::string_view body = clean;
  if (body.starts_with('-') || body.starts_with('+')) body.remove_prefix(1);
  std::string lower(body.substr(0, 9));
  for (char& c : lower) c = char(c >= 'A' && c <= 'Z' ? c | 32 : c);
  const bool named = lower == "inf" || lower == "infinity" || lower == "nan";
  if (!named && (body.empty() || body.find_first_not_of("0123456789.eE+-") != body.npos)) {
    return false;
  }
  char* end = nullptr;
  *number = std::strtod(clean.c_str(), &end);
  return end == clean.c_str() + clean.size() && !clean.empty();
}

int64_t IntArg(const Value& value, int64_t absent) {
  if (value.is_missing()) return absent;
  if (!value.is_int()) Fail("an argument must be an integer");
  return value.integer();
}

std::string_view TextArg(const Value& value, std::string_view absent) {
  if (value.is_missing()) return absent;
  if (!value.is_string()) Fail("an argument must be a string");
  return value.text();
}

}  // namespace penstock::chat::jinja
