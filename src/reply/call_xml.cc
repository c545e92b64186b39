#include "reply/call_xml.h"

#include <algorithm>
#include <string_view>

#include "common/json_writer.h"

namespace penstock {
namespace {

constexpr std::string_view kFunctionTag = "<function=";
constexpr std::string_view kFunctionEnd = "</function>";
constexpr std::string_view kParameterTag = "<parameter=";
constexpr std::string_view kParameterEnd = "</parameter>";
constexpr std::string_view kCallEnd = "</tool_call>";

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// `text` less `end` and the whitespace before it.
std::string_view Before(std::string_view text, std::string_view end) {
  text.remove_suffix(end.size());
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace

CallReader::Result CallXml::Read(char c) {
  switch (state_) {
    case State::kFunction:
      text_.push_back(c);
      if (!kFunctionTag.starts_with(text_)) return Result::kBad;
      if (text_.size() < kFunctionTag.size()) return Result::kMore;
      text_.clear();
      state_ = State::kName;
      return Result::kMore;
    case State::kName:
    case State::kKey:
      return InName(c);
    case State::kBody:
      if (IsSpace(c)) return Result::kMore;
      text_.clear();
      state_ = State::kTag;
      [[fallthrough]];
    case State::kTag:
      return InTag(c);
    case State::kValue:
      return InValue(c);
  }
  return Result::kBad;
}

CallReader::Result CallXml::InName(char c) {
  if (c != '>') {
    text_.push_back(c);
    const bool bad = c == '<' || c == '\n' || text_.size() > limits_.name_bytes_max;
    return bad ? Result::kBad : Result::kMore;
  }
  if (state_ == State::kName) {
    if (!SetName(text_)) return Result::kBad;
    types_.emplace(*tool_);
    told_bytes_ = size_;
    state_ = State::kBody;
    return Result::kMore;
  }
  key_ = text_;
  text_.clear();
  state_ = State::kValue;
  return Result::kMore;
}

CallReader::Result CallXml::InTag(char c) {
  text_.push_back(c);
  if (text_ == kFunctionEnd) return End();
  if (text_ == kParameterTag) {
    text_.clear();
    state_ = State::kKey;
    return Result::kMore;
  }
  const bool may_be = kFunctionEnd.starts_with(text_) || kParameterTag.starts_with(text_);
  return may_be ? Result::kMore : Result::kBad;
}

CallReader::Result CallXml::InValue(char c) {
  text_.push_back(c);
  if (c != '>' && c != '=') return Result::kMore;
  if (text_.ends_with(kParameterEnd)) {
    if (!AddParameter(text_.size() - kParameterEnd.size())) return Result::kBad;
    state_ = State::kBody;
  } else if (text_.ends_with(kParameterTag)) {
    const size_t size = text_.size() - kParameterTag.size();
    if (size == 0 || text_[size - 1] != '\n') return Result::kMore;
    if (!AddParameter(size, kParameterTag.size())) return Result::kBad;
    text_.clear();
    state_ = State::kKey;
  } else if (text_.ends_with(kCallEnd)) {
    const std::string_view value = Before(text_, kCallEnd);
    if (!value.ends_with(kFunctionEnd)) return Result::kMore;
    if (!AddParameter(value.size() - kFunctionEnd.size())) return Result::kBad;
    closed_tag_ = true;
    return End();
  }
  return Result::kMore;
}

bool CallXml::AddParameter(size_t size, size_t unused) {
  if (std::find(keys_.begin(), keys_.end(), key_) != keys_.end()) return false;
  keys_.push_back(key_);
  std::string_view value = std::string_view(text_).substr(0, size);
  if (value.starts_with('\n')) value.remove_prefix(1);
  if (value.ends_with('\n')) value.remove_suffix(1);
  arguments_ += arguments_.empty() ? "{" : ", ";
  AppendJsonString(key_, &arguments_);
  arguments_ += ": " + types_->Json(key_, value);
  told_bytes_ = size_ - unused;
  return true;
}

CallReader::Result CallXml::End() {
  arguments_ += arguments_.empty() ? "{}" : "}";
  told_bytes_ = size_;
  stands_at_ = size_;
  return Result::kDone;
}

}  // namespace penstock
