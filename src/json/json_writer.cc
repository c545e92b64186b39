#include "json/json_writer.h"

#include <array>
#include <charconv>
#include <cmath>

#include "base/utf8_check.h"

namespace penstock {
namespace {

// '\0' = copied as it is, 'u' = \u00XX, else the letter after the backslash.
constexpr std::array<char, 256> kEscapes = [] {
  std::array<char, 256> table{};
  for (int c = 0; c < 0x20; ++c) table[static_cast<size_t>(c)] = 'u';
  table['\b'] = 'b';
  table['\f'] = 'f';
  table['\n'] = 'n';
  table['\r'] = 'r';
  table['\t'] = 't';
  table['"'] = '"';
  table['\\'] = '\\';
  table[0x7f] = 'u';
  return table;
}();

// Length of the well-formed UTF-8 sequence at the head of `text`, 0 if there is none.
size_t SequenceBytes(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t bytes = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 0;
  if (bytes == 0 || bytes > text.size()) return 0;
  return IsValidUtf8(text.substr(0, bytes)) ? bytes : 0;
}

std::string WithReplacements(std::string_view text) {
  std::string clean;
  clean.reserve(text.size() + 16);
  while (!text.empty()) {
    const size_t bytes = SequenceBytes(text);
    if (bytes == 0) {
      clean += "\xef\xbf\xbd";
      text.remove_prefix(1);
    } else {
      clean += text.substr(0, bytes);
      text.remove_prefix(bytes);
    }
  }
  return clean;
}

void AppendEscaped(std::string_view text, std::string* out) {
  constexpr char kHex[] = "0123456789abcdef";
  out->push_back('"');
  size_t copied = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const char escape = kEscapes[byte];
    if (escape == '\0') [[likely]]
      continue;
    out->append(text, copied, i - copied);
    copied = i + 1;
    out->push_back('\\');
    out->push_back(escape);
    if (escape == 'u') {
      *out += "00";
      out->push_back(kHex[byte >> 4]);
      out->push_back(kHex[byte & 15]);
    }
  }
  out->append(text, copied, text.size() - copied);
  out->push_back('"');
}

template <typename T>
void AppendNumber(T number, std::string* out) {
  char digits[40];
  const auto end = std::to_chars(digits, digits + sizeof(digits), number).ptr;
  out->append(digits, end);
  if constexpr (std::is_floating_point_v<T>) {
    // A typed client reads "1" as an integer; "1.0" cannot be mistaken.
    for (const char* c = digits; c != end; ++c) {
      if (*c == '.' || *c == 'e') return;
    }
    *out += ".0";
  }
}

template <typename T>
void AppendFinite(T number, std::string* out) {
  if (std::isfinite(number)) {
    AppendNumber(number, out);
  } else {
    *out += "null";
  }
}

}  // namespace

void AppendJsonString(std::string_view text, std::string* out) {
  if (IsValidUtf8(text)) {
    AppendEscaped(text, out);
  } else {
    AppendEscaped(WithReplacements(text), out);
  }
}

void JsonWriter::Separate() {
  if (need_comma_) out_.push_back(',');
  need_comma_ = true;
}

JsonWriter& JsonWriter::Open(char bracket) {
  Separate();
  out_.push_back(bracket);
  need_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::Close(char bracket) {
  out_.push_back(bracket);
  need_comma_ = true;
  return *this;
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  Separate();
  AppendJsonString(key, &out_);
  out_.push_back(':');
  need_comma_ = false;
  return *this;
}

JsonWriter& JsonWriter::String(std::string_view text) {
  Separate();
  AppendJsonString(text, &out_);
  return *this;
}

JsonWriter& JsonWriter::Int(int64_t number) {
  Separate();
  AppendNumber(number, &out_);
  return *this;
}

JsonWriter& JsonWriter::Uint(uint64_t number) {
  Separate();
  AppendNumber(number, &out_);
  return *this;
}

JsonWriter& JsonWriter::Double(double number) {
  Separate();
  AppendFinite(number, &out_);
  return *this;
}

JsonWriter& JsonWriter::Float(float number) {
  Separate();
  AppendFinite(number, &out_);
  return *this;
}

JsonWriter& JsonWriter::Bool(bool truth) { return Raw(truth ? "true" : "false"); }
JsonWriter& JsonWriter::Null() { return Raw("null"); }

JsonWriter& JsonWriter::Raw(std::string_view json) {
  Separate();
  out_ += json;
  return *this;
}

JsonWriter& JsonWriter::Floats(std::span<const float> numbers) {
  BeginArray();
  for (const float number : numbers) Float(number);
  return EndArray();
}

JsonWriter& JsonWriter::Ints(std::span<const int32_t> numbers) {
  BeginArray();
  for (const int32_t number : numbers) Int(number);
  return EndArray();
}

}  // namespace penstock
