#include "openvino/ir_scan.h"

#include <array>
#include <charconv>
#include <cstdint>

namespace penstock::openvino {
namespace {

constexpr std::array<std::string_view, 2> kStateOperations = {"ReadValue", "Assign"};
// Longer values name neither, however their characters are written, unless a reference has zeros
// in front; these are skipped.
constexpr size_t kNameMax = 16;

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

void SkipBlanks(std::string_view text, size_t* at) {
  while (*at < text.size() && IsBlank(text[*at])) ++*at;
}

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

// The character of the reference that begins at *at ("&#82;", "&#x52;"), which moves behind it; the
// plain character where there is none.
char NextCharacter(std::string_view value, size_t* at) {
  const char c = value[(*at)++];
  if (c != '&' || *at >= value.size() || value[*at] != '#') return c;
  size_t digit = *at + 1;
  const bool hexadecimal = digit < value.size() && Lower(value[digit]) == 'x';
  if (hexadecimal) ++digit;
  uint32_t code = 0;
  const auto [end, error] = std::from_chars(value.data() + digit, value.data() + value.size(), code,
                                            hexadecimal ? 16 : 10);
  if (error != std::errc() || code >= 128) return c;
  *at = static_cast<size_t>(end - value.data());
  if (*at < value.size() && value[*at] == ';') ++*at;
  return static_cast<char>(code);
}

// In lower case; "" of one that is too long.
std::string NameOf(std::string_view value) {
  std::string name;
  for (size_t at = 0; at < value.size();) {
    if (name.size() == kNameMax) return "";
    name += Lower(NextCharacter(value, &at));
  }
  return name;
}

}  // namespace

// Not a walk through tags: what stands in comments and texts cannot lead it astray, and a name of
// an attribute cannot be written otherwise.
std::string StateOperationOf(std::string_view xml) {
  constexpr std::string_view kType = "type";
  for (size_t at = xml.find(kType); at != std::string_view::npos; at = xml.find(kType, at)) {
    at += kType.size();
    size_t value = at;
    SkipBlanks(xml, &value);
    if (value >= xml.size() || xml[value] != '=') continue;
    SkipBlanks(xml, &++value);
    if (value >= xml.size() || (xml[value] != '"' && xml[value] != '\'')) continue;
    const size_t end = xml.find(xml[value], value + 1);
    if (end == std::string_view::npos) continue;
    const std::string name = NameOf(xml.substr(value + 1, end - value - 1));
    for (const std::string_view operation : kStateOperations) {
      std::string lower;
      for (const char c : operation) lower += Lower(c);
      if (name == lower) return std::string(operation);
    }
  }
  return "";
}

}  // namespace penstock::openvino
