// Cuts a Jinja template into tokens, with the white-space rules that transformers sets:
// trim_blocks, lstrip_blocks, and no newline at the end of the template.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::chat::jinja {

enum class TokenKind : uint8_t {
  kData,
  kBlockBegin,
  kBlockEnd,
  kVariableBegin,
  kVariableEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 1;
  std::string text;  // of a string: what it stands for
  int64_t integer = 0;
  double real = 0;

  bool IsName(std::string_view name) const { return kind == TokenKind::kName && text == name; }
  bool IsOperator(std::string_view sign) const {
    return kind == TokenKind::kOperator && text == sign;
  }
};

// More tokens are refused; known templates have some thousand.
inline constexpr size_t kTokensMax = 1 << 20;

// `source` is UTF-8. Ends with a kEnd. Throws Error, with the line.
std::vector<Token> Tokenize(std::string_view source);

[[noreturn]] void FailAt(int line, const std::string& message);

// White space to Python's str.isspace and strip.
bool IsPythonSpace(char32_t c);
// `text` without white space at its ends.
std::string_view StripLeft(std::string_view text);
std::string_view StripRight(std::string_view text);

}  // namespace penstock::chat::jinja
