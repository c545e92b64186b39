// Follows one JSON value (RFC 8259) byte by byte, without keeping it: says at which byte the value
// ends, or that it cannot be JSON. Used where JSON arrives in pieces with other text behind it.
#pragma once

#include <cstdint>
#include <string>

namespace penstock::reply {

// Not thread-safe. Strict: no raw control characters in strings, no lone surrogates, no whitespace
// before the value. Bytes of 0x80 and more are taken in strings; that they are UTF-8 is the
// caller's affair.
class JsonScanner {
 public:
  enum class Result {
    kMore,        // the byte belongs to the value, which goes on
    kDone,        // the byte ends the value
    kDoneBefore,  // the value, a number, ended before this byte, which is not part of it
    kBad,         // no JSON, or deeper than depth_max
  };
  // An array or object in `depth_max` others is refused.
  explicit JsonScanner(size_t depth_max) : depth_max_(depth_max) {}

  // Not to be called after another result than kMore.
  Result Next(char c);

 private:
  enum class State : uint8_t {
    kValue,
    kValueOrEnd,  // behind [
    kKeyOrEnd,    // behind {
    kKey,
    kColon,
    kBehindValue,
    kString,
    kEscape,
    kHex,
    kLiteral,
    // In a number: its last part so far. From kZero on it may end there but for kPoint, kExponent
    // and kExponentSign.
    kMinus,
    kZero,
    kInteger,
    kPoint,
    kFraction,
    kExponent,
    kExponentSign,
    kExponentDigits,
  };

  Result BeginValue(char c);
  Result Open(char bracket);
  Result Close(char bracket);
  Result EndValue();
  Result InString(char c);
  Result InEscape(char c);
  Result InHex(char c);
  Result InNumber(char c);
  Result BehindValue(char c);

  size_t depth_max_;
  std::string open_;  // the brackets around this place
  State state_ = State::kValue;
  bool is_key_ = false;         // the string
  bool needs_low_ = false;      // \uD83D came, \uDE00 must follow
  int hex_left_ = 0;            // digits
  uint32_t hex_ = 0;            // of \uXXXX so far
  const char* rest_ = nullptr;  // of true, false, null
};

}  // namespace penstock::reply
