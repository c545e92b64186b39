#include "reply/json_scanner.h"

#include <string_view>

#include "reply/json_space.h"

namespace penstock::reply {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

JsonScanner::Result JsonScanner::Next(char c) {
  switch (state_) {
    case State::kString:
      return InString(c);
    case State::kEscape:
      return InEscape(c);
    case State::kHex:
      return InHex(c);
    case State::kLiteral:
      if (c != *rest_) return Result::kBad;
      return *++rest_ == '\0' ? EndValue() : Result::kMore;
    case State::kValueOrEnd:
      if (c == ']') return Close(c);
      [[fallthrough]];
    case State::kValue:
      if (IsJsonSpace(c) && !open_.empty()) return Result::kMore;
      return BeginValue(c);
    case State::kKeyOrEnd:
      if (c == '}') return Close(c);
      [[fallthrough]];
    case State::kKey:
      if (IsJsonSpace(c)) return Result::kMore;
      if (c != '"') return Result::kBad;
      is_key_ = true;
      state_ = State::kString;
      return Result::kMore;
    case State::kColon:
      if (IsJsonSpace(c)) return Result::kMore;
      if (c != ':') return Result::kBad;
      state_ = State::kValue;
      return Result::kMore;
    case State::kBehindValue:
      return BehindValue(c);
    default:
      return InNumber(c);
  }
}

JsonScanner::Result JsonScanner::BeginValue(char c) {
  switch (c) {
    case '{':
    case '[':
      return Open(c);
    case '"':
      is_key_ = false;
      state_ = State::kString;
      return Result::kMore;
    case 't':
      rest_ = "rue";
      break;
    case 'f':
      rest_ = "alse";
      break;
    case 'n':
      rest_ = "ull";
      break;
    case '-':
      state_ = State::kMinus;
      return Result::kMore;
    case '0':
      state_ = State::kZero;
      return Result::kMore;
    default:
      if (!IsDigit(c)) return Result::kBad;
      state_ = State::kInteger;
      return Result::kMore;
  }
  state_ = State::kLiteral;
  return Result::kMore;
}

JsonScanner::Result JsonScanner::Open(char bracket) {
  if (open_.size() >= depth_max_) return Result::kBad;
  open_.push_back(bracket);
  state_ = bracket == '{' ? State::kKeyOrEnd : State::kValueOrEnd;
  return Result::kMore;
}

JsonScanner::Result JsonScanner::Close(char bracket) {
  if (open_.back() != (bracket == '}' ? '{' : '[')) return Result::kBad;
  open_.pop_back();
  return EndValue();
}

JsonScanner::Result JsonScanner::EndValue() {
  state_ = State::kBehindValue;
  return open_.empty() ? Result::kDone : Result::kMore;
}

JsonScanner::Result JsonScanner::BehindValue(char c) {
  if (IsJsonSpace(c)) return Result::kMore;
  if (c == '}' || c == ']') return Close(c);
  if (c != ',') return Result::kBad;
  state_ = open_.back() == '{' ? State::kKey : State::kValue;
  return Result::kMore;
}

JsonScanner::Result JsonScanner::InString(char c) {
  if (needs_low_ && c != '\\') return Result::kBad;
  if (static_cast<unsigned char>(c) < 0x20) return Result::kBad;
  if (c == '\\') {
    state_ = State::kEscape;
  } else if (c == '"') {
    if (!is_key_) return EndValue();
    state_ = State::kColon;
  }
  return Result::kMore;
}

JsonScanner::Result JsonScanner::InEscape(char c) {
  if (c == 'u') {
    hex_ = 0;
    hex_left_ = 4;
    state_ = State::kHex;
    return Result::kMore;
  }
  if (needs_low_ || std::string_view("\"\\/bfnrt").find(c) == std::string_view::npos) {
    return Result::kBad;
  }
  state_ = State::kString;
  return Result::kMore;
}

JsonScanner::Result JsonScanner::InHex(char c) {
  const char lower = static_cast<char>(c | 0x20);
  if (!IsDigit(c) && (lower < 'a' || lower > 'f')) return Result::kBad;
  hex_ = hex_ << 4 | static_cast<uint32_t>(IsDigit(c) ? c - '0' : lower - 'a' + 10);
  if (--hex_left_ > 0) return Result::kMore;
  const bool is_low = hex_ >= 0xDC00 && hex_ < 0xE000;
  if (needs_low_ != is_low) return Result::kBad;
  needs_low_ = hex_ >= 0xD800 && hex_ < 0xDC00;
  state_ = State::kString;
  return Result::kMore;
}

JsonScanner::Result JsonScanner::InNumber(char c) {
  const State last = state_;
  const bool exponent = c == 'e' || c == 'E';
  switch (last) {
    case State::kMinus:
      if (!IsDigit(c)) return Result::kBad;
      state_ = c == '0' ? State::kZero : State::kInteger;
      return Result::kMore;
    case State::kPoint:
      if (!IsDigit(c)) return Result::kBad;
      state_ = State::kFraction;
      return Result::kMore;
    case State::kExponent:
      if (c == '+' || c == '-') {
        state_ = State::kExponentSign;
        return Result::kMore;
      }
      [[fallthrough]];
    case State::kExponentSign:
      if (!IsDigit(c)) return Result::kBad;
      state_ = State::kExponentDigits;
      return Result::kMore;
    default:
      break;
  }
  if (IsDigit(c) && last != State::kZero) return Result::kMore;
  if (c == '.' && (last == State::kZero || last == State::kInteger)) {
    state_ = State::kPoint;
    return Result::kMore;
  }
  if (exponent && last != State::kExponentDigits) {
    state_ = State::kExponent;
    return Result::kMore;
  }
  if (EndValue() == Result::kDone) return Result::kDoneBefore;
  return BehindValue(c);
}

}  // namespace penstock::reply
