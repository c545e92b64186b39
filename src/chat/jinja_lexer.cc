#include "chat/jinja_lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "chat/jinja_value.h"
#include "unicode/unicode.h"
#include "unicode/utf8.h"

namespace penstock::chat::jinja {
namespace {

constexpr std::array<std::string_view, 6> kLongOperators = {"//", "**", "==", "!=", ">=", "<="};
constexpr std::string_view kShortOperators = "+-/*%~[](){}<>=.:|,;";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsNameCharacter(char32_t c) {
  if (c < 0x80) return IsDigit(char(c)) || c == '_' || (c | 32) - 'a' < 26u;
  switch (unicode::UnicodeCategoryOf(c)) {
    case unicode::kCatLl:
    case unicode::kCatLm:
    case unicode::kCatLo:
    case unicode::kCatLt:
    case unicode::kCatLu:
    case unicode::kCatNl:
    case unicode::kCatNd:
    case unicode::kCatMn:
    case unicode::kCatMc:
    case unicode::kCatPc:
      return true;
    default:
      return false;
  }
}

// All line ends as \n, the one at the end of the text dropped.
std::string NormalLines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out.push_back(source[i]);
      continue;
    }
    out.push_back('\n');
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : text_(NormalLines(source)) {}

  std::vector<Token> Run() {
    while (at_ < text_.size()) Root();
    Push(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view Rest() const { return std::string_view(text_).substr(at_); }

  void Push(TokenKind kind, std::string_view text) {
    if (tokens_.size() >= kTokensMax) FailAt(line_, "the template has too many tokens");
    Token token;
    token.kind = kind;
    token.line = line_;
    token.text = text;
    tokens_.push_back(std::move(token));
  }
  void Advance(size_t bytes) {
    line_ += static_cast<int>(std::count(text_.begin() + at_, text_.begin() + at_ + bytes, '\n'));
    at_ += bytes;
    if (bytes > 0) line_starts_ = text_[at_ - 1] == '\n';
  }
  void SkipSpace() { Advance(Rest().size() - StripLeft(Rest()).size()); }

  void PushData(std::string_view data, char sign, bool variable) {
    const int line = line_;
    const size_t bytes = data.size();
    if (sign == '-') {
      data = StripRight(data);
    } else if (sign != '+' && !variable) {
      const size_t newline = data.rfind('\n');
      const size_t begin = newline == data.npos ? 0 : newline + 1;
      if ((begin > 0 || line_starts_) && StripLeft(data.substr(begin)).empty()) {
        data = data.substr(0, begin);
      }
    }
    if (!data.empty()) Push(TokenKind::kData, data);
    line_ = line;
    Advance(bytes);
  }

  // Where the next tag opens, or npos.
  size_t FindTag() const {
    for (size_t i = text_.find('{', at_); i != text_.npos; i = text_.find('{', i + 1)) {
      if (i + 1 < text_.size() &&
          (text_[i + 1] == '{' || text_[i + 1] == '%' || text_[i + 1] == '#')) {
        return i;
      }
    }
    return text_.npos;
  }

  void Root() {
    const size_t tag = FindTag();
    if (tag == text_.npos) {
      Push(TokenKind::kData, Rest());
      Advance(Rest().size());
      return;
    }
    const char kind = text_[tag + 1];
    const std::string_view data = Rest().substr(0, tag - at_);
    const size_t sign_at = tag + 2;
    const char sign = sign_at < text_.size() && (text_[sign_at] == '-' || text_[sign_at] == '+')
                          ? text_[sign_at]
                          : 0;
    PushData(data, sign, kind == '{');
    Advance(2 + (sign != 0));
    if (kind == '#') return Comment();
    if (kind == '%' && Raw()) return;
    Push(kind == '{' ? TokenKind::kVariableBegin : TokenKind::kBlockBegin, "");
    Tag(kind == '{');
  }

  void Comment() {
    const size_t end = text_.find("#}", at_);
    if (end == text_.npos && at_ == text_.size()) return;  // jinja2 lets it pass
    if (end == text_.npos) FailAt(line_, "missing end of comment");
    const char sign = end > at_ ? text_[end - 1] : 0;
    Advance(end + 2 - at_);
    AfterTag(sign == '-', sign == '+');
  }

  // After a closing tag of a block or a comment.
  void AfterTag(bool strip, bool keep) {
    if (strip) {
      SkipSpace();
    } else if (!keep && at_ < text_.size() && text_[at_] == '\n') {
      Advance(1);
    }
  }

  // {% raw %} ... {% endraw %}; `at_` is behind the opening sign.
  bool Raw() {
    std::string_view rest = StripLeft(Rest());
    if (!rest.starts_with("raw")) return false;
    rest = StripLeft(rest.substr(3));
    const bool strip = rest.starts_with("-%}");
    if (!strip && !rest.starts_with("%}")) return false;
    Advance(Rest().size() - rest.size() + (strip ? 3 : 2));
    if (strip) SkipSpace();
    for (size_t tag = text_.find("{%", at_); tag != text_.npos; tag = text_.find("{%", tag + 1)) {
      std::string_view end = std::string_view(text_).substr(tag + 2);
      const char sign = !end.empty() && (end[0] == '-' || end[0] == '+') ? end[0] : 0;
      if (sign != 0) end.remove_prefix(1);
      end = StripLeft(end);
      if (!end.starts_with("endraw")) continue;
      end = StripLeft(end.substr(6));
      const char close = !end.empty() && (end[0] == '-' || end[0] == '+') ? end[0] : 0;
      if (close != 0) end.remove_prefix(1);
      if (!end.starts_with("%}")) continue;
      PushData(std::string_view(text_).substr(at_, tag - at_), sign, false);
      Advance(Rest().size() - (end.size() - 2));
      AfterTag(close == '-', close == '+');
      return true;
    }
    if (at_ < text_.size()) FailAt(line_, "missing end of raw block");
    return true;
  }

  bool TagEnd(bool variable) {
    const std::string_view close = variable ? "}}" : "%}";
    if (!open_.empty()) return false;
    char sign = 0;
    std::string_view rest = Rest();
    if (rest[0] == '-' || (rest[0] == '+' && !variable)) {
      sign = rest[0];
      rest.remove_prefix(1);
    }
    if (!rest.starts_with(close)) return false;
    Push(variable ? TokenKind::kVariableEnd : TokenKind::kBlockEnd, "");
    Advance(2 + (sign != 0));
    AfterTag(sign == '-', sign == '+' || variable);
    return true;
  }

  void Tag(bool variable) {
    while (at_ < text_.size()) {
      if (TagEnd(variable)) return;
      int length = 0;
      const char32_t c = unicode::DecodeUtf8(text_.data() + at_, &length);
      if (IsPythonSpace(c)) {
        SkipSpace();
      } else if (IsDigit(text_[at_])) {
        Number();
      } else if (IsNameCharacter(c)) {
        Name();
      } else if (c == '\'' || c == '"') {
        String(text_[at_]);
      } else {
        Operator();
      }
    }
  }

  void Name() {
    size_t bytes = 0;
    const std::string_view rest = Rest();
    while (bytes < rest.size()) {
      int length = 0;
      if (!IsNameCharacter(unicode::DecodeUtf8(rest.data() + bytes, &length))) break;
      bytes += length;
    }
    Push(TokenKind::kName, rest.substr(0, bytes));
    Advance(bytes);
  }

  void Operator() {
    const std::string_view rest = Rest();
    size_t bytes = 0;
    for (const std::string_view sign : kLongOperators) {
      if (rest.starts_with(sign)) bytes = 2;
    }
    if (bytes == 0 && kShortOperators.find(rest[0]) != kShortOperators.npos) bytes = 1;
    if (bytes == 0)
      FailAt(line_, "unexpected character '" +
                        std::string(rest.substr(0, unicode::Utf8Length(rest[0]))) + "'");
    const char c = rest[0];
    if (c == '{' || c == '(' || c == '[') open_.push_back(c == '{' ? '}' : c == '(' ? ')' : ']');
    if (c == '}' || c == ')' || c == ']') {
      if (open_.empty() || open_.back() != c) FailAt(line_, std::string("unexpected '") + c + "'");
      open_.pop_back();
    }
    Push(TokenKind::kOperator, rest.substr(0, bytes));
    Advance(bytes);
  }

  // Digits with single underscores between them, from `from`; 0 if there are none.
  template <typename Is>
  static size_t Digits(std::string_view text, size_t from, Is is) {
    size_t at = from;
    while (at < text.size()) {
      if (is(text[at])) {
        ++at;
      } else if (text[at] == '_' && at > from && at + 1 < text.size() && is(text[at + 1])) {
        ++at;
      } else {
        break;
      }
    }
    return at - from;
  }

  // Bytes of the float at the front, or 0.
  size_t FloatBytes() const {
    if (at_ > 0 && text_[at_ - 1] == '.') return 0;
    const std::string_view rest = Rest();
    size_t at = Digits(rest, 0, IsDigit);
    bool is_float = false;
    if (at < rest.size() && rest[at] == '.') {
      const size_t fraction = Digits(rest, at + 1, IsDigit);
      if (fraction > 0) at += 1 + fraction, is_float = true;
    }
    if (at < rest.size() && (rest[at] | 32) == 'e') {
      const size_t sign = at + 1 < rest.size() && (rest[at + 1] == '+' || rest[at + 1] == '-');
      const size_t exponent = Digits(rest, at + 1 + sign, IsDigit);
      if (exponent > 0) at += 1 + sign + exponent, is_float = true;
    }
    return is_float ? at : 0;
  }

  size_t IntegerBytes(int* base) const {
    const std::string_view rest = Rest();
    *base = 10;
    if (rest[0] != '0') return Digits(rest, 0, IsDigit);
    if (rest.size() > 1) {
      const char kind = char(rest[1] | 32);
      const int wanted = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
      const size_t from = rest.size() > 2 && rest[2] == '_' ? 3 : 2;
      const size_t digits = wanted == 0 ? 0 : Digits(rest, from, [&](char c) {
        const int digit = IsDigit(c) ? c - '0' : (c | 32) >= 'a' ? (c | 32) - 'a' + 10 : 99;
        return digit < wanted;
      });
      if (digits > 0) {
        *base = wanted;
        return from + digits;
      }
    }
    return Digits(rest, 0, [](char c) { return c == '0'; });
  }

  void Number() {
    const auto digits = [&](size_t bytes) {
      std::string text(Rest().substr(0, bytes));
      std::erase(text, '_');
      return text;
    };
    if (const size_t bytes = FloatBytes(); bytes > 0) {
      Push(TokenKind::kFloat, Rest().substr(0, bytes));
      tokens_.back().real = std::strtod(digits(bytes).c_str(), nullptr);
      return Advance(bytes);
    }
    int base = 10;
    const size_t bytes = IntegerBytes(&base);
    const std::string text = digits(bytes).substr(base == 10 ? 0 : 2);
    Push(TokenKind::kInteger, Rest().substr(0, bytes));
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), tokens_.back().integer, base);
    if (error != std::errc()) FailAt(line_, "integers beyond 64 bits are not supported");
    Advance(bytes);
  }

  void String(char quote);

  const std::string text_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;
  std::string open_;  // the brackets that must close
  std::vector<Token> tokens_;
};

// Up to `digits` of `base` at the front; how many there are goes to *used.
uint32_t Code(std::string_view text, size_t digits, int base, size_t* used) {
  uint32_t code = 0;
  const std::string_view part = text.substr(0, digits);
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), code, base);
  *used = error == std::errc() ? end - part.data() : 0;
  return code;
}

// One escape, `rest` behind the backslash; gives the bytes it took.
size_t Unescape(std::string_view rest, int line, std::string* out) {
  static constexpr std::string_view kSigns = "abfnrtv\\'\"";
  static constexpr std::string_view kMeant = "\a\b\f\n\r\t\v\\'\"";
  const char c = rest[0];
  if (c == '\n') return 1;
  if (const size_t sign = kSigns.find(c); sign != kSigns.npos) {
    out->push_back(kMeant[sign]);
    return 1;
  }
  size_t used = 0;
  if (c >= '0' && c <= '7') {
    unicode::AppendUtf8(Code(rest, 3, 8, &used), out);
    return used;
  }
  if (c == 'N') FailAt(line, "escapes of the form \\N{...} are not supported");
  if (c == 'x' || c == 'u' || c == 'U') {
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
    const uint32_t code = Code(rest.substr(1), digits, 16, &used);
    if (used != digits || code > 0x10FFFF) FailAt(line, "a string has a broken escape");
    unicode::AppendUtf8(
        code >= 0xD800 && code < 0xE000 ? unicode::kReplacementChar : char32_t{code}, out);
    return 1 + digits;
  }
  out->push_back('\\');
  if (static_cast<unsigned char>(c) < 0x80) return 0;
  // Python makes such a character an escape first, and then reads two backslashes as one.
  int length = 0;
  const char32_t code = unicode::DecodeUtf8(rest.data(), &length);
  char hex[16];
  const char* format = code < 0x100 ? "x%02x" : code < 0x10000 ? "u%04x" : "U%08x";
  std::snprintf(hex, sizeof hex, format, static_cast<unsigned>(code));
  out->append(hex);
  return length;
}

void Lexer::String(char quote) {
  const std::string_view rest = Rest();
  const int line = line_;
  std::string out;
  size_t at = 1;
  while (true) {
    if (at >= rest.size()) FailAt(line, std::string("unexpected character '") + quote + "'");
    if (rest[at] == quote) break;
    if (rest[at] != '\\') {
      out.push_back(rest[at++]);
      continue;
    }
    if (++at >= rest.size()) continue;
    at += Unescape(rest.substr(at), line, &out);
  }
  Push(TokenKind::kString, out);
  Advance(at + 1);
}

}  // namespace

void FailAt(int line, const std::string& message) {
  Fail("line " + std::to_string(line) + ": " + message);
}

bool IsPythonSpace(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13) || (c >= 28 && c <= 31);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

std::string_view StripLeft(std::string_view text) {
  while (!text.empty()) {
    int length = 0;
    if (!IsPythonSpace(unicode::DecodeUtf8(text.data(), &length))) break;
    text.remove_prefix(length);
  }
  return text;
}

std::string_view StripRight(std::string_view text) {
  while (!text.empty()) {
    int length = 0;
    if (!IsPythonSpace(unicode::DecodeUtf8Before(text.data() + text.size(), &length))) break;
    text.remove_suffix(length);
  }
  return text;
}

std::vector<Token> Tokenize(std::string_view source) { return Lexer(source).Run(); }

}  // namespace penstock::chat::jinja
