#include "reply/call_json.h"

#include <string_view>

#include "json/json.h"
#include "reply/json_space.h"

namespace penstock::reply {
namespace {

// What a quoted JSON string says.
bool Unquote(const std::string& json, std::string* text) {
  const auto document = JsonDocument::Parse(json);
  std::string_view value;
  if (!document.ok() || !document->root().Get(&value)) return false;
  text->assign(value);
  return true;
}

// Whether `key`, whose end may not be here yet, can be one of a call's.
bool MayBeKeyOfCall(std::string_view key) {
  for (const std::string_view known : {"name", "arguments", "parameters", "type", "id"}) {
    if (known.starts_with(key)) return true;
  }
  return false;
}

}  // namespace

CallJson::CallJson(const ToolSet& tools, const CallLimits& limits, bool bare)
    : CallReader(tools, limits), bare_(bare), scanner_(limits.json_depth_max) {}

CallReader::Result CallJson::Read(char c) {
  if (state_ == State::kKey) return InKey(c);
  if (state_ == State::kValue) return InValue(c);
  if (state_ != State::kOpen && IsJsonSpace(c)) {
    told_bytes_ = size_;
    return Result::kMore;
  }
  switch (state_) {
    case State::kOpen:
      state_ = State::kFirstKey;
      return c == '{' ? Result::kMore : Result::kBad;
    case State::kFirstKey:
    case State::kNextKey:
      if (c != '"') return Result::kBad;
      text_.clear();
      scanner_ = JsonScanner(limits_.json_depth_max);
      (void)scanner_.Next(c);
      state_ = State::kKey;
      return Result::kMore;
    case State::kColon:
      state_ = State::kBeforeValue;
      return c == ':' ? Result::kMore : Result::kBad;
    case State::kBeforeValue:
      return BeginValue(c);
    default:
      return BehindValue(c);
  }
}

CallReader::Result CallJson::InKey(char c) {
  const JsonScanner::Result result = scanner_.Next(c);
  if (result == JsonScanner::Result::kBad) return Result::kBad;
  if (result == JsonScanner::Result::kMore) {
    text_.push_back(c);
    return bare_ && !MayBeKeyOfCall(text_) ? Result::kBad : Result::kMore;
  }
  const bool is_arguments = text_ == "arguments" || text_ == "parameters";
  role_ = text_ == "name" ? Role::kName : is_arguments ? Role::kArguments : Role::kOther;
  if ((role_ == Role::kName && has_name_) || (is_arguments && has_arguments_)) return Result::kBad;
  has_name_ |= role_ == Role::kName;
  has_arguments_ |= is_arguments;
  state_ = State::kColon;
  return Result::kMore;
}

CallReader::Result CallJson::BeginValue(char c) {
  if (role_ == Role::kName && c != '"') return Result::kBad;
  if (role_ == Role::kArguments && c != '{' && c != '"' && c != 'n') return Result::kBad;
  text_.clear();
  scanner_ = JsonScanner(limits_.json_depth_max);
  state_ = State::kValue;
  return InValue(c);
}

CallReader::Result CallJson::InValue(char c) {
  const JsonScanner::Result result = scanner_.Next(c);
  if (result == JsonScanner::Result::kBad) return Result::kBad;
  if (result == JsonScanner::Result::kDoneBefore) {
    state_ = State::kBehindValue;
    return IsJsonSpace(c) ? Result::kMore : BehindValue(c);
  }
  if (role_ == Role::kArguments && (c == '{' || !arguments_.empty()) && text_.empty()) {
    arguments_.push_back(c);
  } else if (role_ != Role::kOther) {
    text_.push_back(c);
  }
  told_bytes_ = size_;
  if (result == JsonScanner::Result::kMore) return Result::kMore;
  state_ = State::kBehindValue;
  if (!EndValue()) return Result::kBad;
  CheckStands();
  return Result::kMore;
}

bool CallJson::EndValue() {
  if (role_ == Role::kName) {
    std::string name;
    return Unquote(text_, &name) && SetName(name);
  }
  if (role_ == Role::kOther) return true;
  arguments_end_ = true;
  if (!arguments_.empty()) return true;
  if (text_[0] == 'n') {
    arguments_ = "{}";
    return true;
  }
  std::string inner;
  if (!Unquote(text_, &inner)) return false;
  if (inner.find_first_not_of(" \t\r\n") == std::string::npos) {
    arguments_ = "{}";
    return true;
  }
  const auto document = JsonDocument::Parse(inner);
  if (!document.ok() || !document->root().is_object()) return false;
  arguments_ = std::move(inner);
  return true;
}

CallReader::Result CallJson::BehindValue(char c) {
  told_bytes_ = size_;
  if (c == ',') {
    state_ = State::kNextKey;
    return Result::kMore;
  }
  if (c != '}' || tool_ == nullptr || (bare_ && !has_arguments_)) return Result::kBad;
  if (!has_arguments_) {
    arguments_ = "{}";
    arguments_end_ = true;
  }
  CheckStands();
  return Result::kDone;
}

void CallJson::CheckStands() {
  if (stands_at_ == 0 && tool_ != nullptr && arguments_end_) stands_at_ = size_;
}

bool CallNamed::IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

CallNamed::CallNamed(const ToolSet& tools, const CallLimits& limits)
    : CallReader(tools, limits), scanner_(limits.json_depth_max) {}

CallReader::Result CallNamed::Read(char c) {
  told_bytes_ = size_;
  switch (state_) {
    case State::kName:
      if (IsNameByte(c)) {
        text_.push_back(c);
        return text_.size() > limits_.name_bytes_max ? Result::kBad : Result::kMore;
      }
      if (!SetName(text_)) return Result::kBad;
      text_.clear();
      [[fallthrough]];
    case State::kId:
      if (c == '[') {
        state_ = State::kTag;
        return InTag(c);
      }
      if (state_ == State::kId) return IsNameByte(c) ? Result::kMore : Result::kBad;
      state_ = State::kBeforeArguments;
      [[fallthrough]];
    case State::kBeforeArguments:
      if (IsJsonSpace(c)) return Result::kMore;
      if (c != '{') return Result::kBad;
      state_ = State::kArguments;
      [[fallthrough]];
    case State::kArguments: {
      const JsonScanner::Result result = scanner_.Next(c);
      if (result == JsonScanner::Result::kBad) return Result::kBad;
      arguments_.push_back(c);
      if (result == JsonScanner::Result::kMore) return Result::kMore;
      stands_at_ = size_;
      return Result::kDone;
    }
    case State::kTag:
      return InTag(c);
  }
  return Result::kBad;
}

CallReader::Result CallNamed::InTag(char c) {
  constexpr std::string_view kArgs = "[ARGS]", kCallId = "[CALL_ID]";
  text_.push_back(c);
  if (text_ == kArgs || text_ == kCallId) {
    state_ = text_ == kArgs ? State::kBeforeArguments : State::kId;
    text_.clear();
    return Result::kMore;
  }
  return kArgs.starts_with(text_) || kCallId.starts_with(text_) ? Result::kMore : Result::kBad;
}

}  // namespace penstock::reply
