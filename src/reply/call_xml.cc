#include "reply/call_xml.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "json/json_writer.h"
#include "reply/json_space.h"
#include "unicode/utf8.h"

namespace penstock::reply {
namespace {

constexpr std::string_view kFunctionEnd = "</function>";
constexpr std::string_view kParameterTag = "<parameter=";
constexpr std::string_view kParameterEnd = "</parameter>";
constexpr std::string_view kCallEnd = "</tool_call>";

// Where `text` ends with </function> and whitespace, the place of that; else npos.
size_t FunctionEndAt(std::string_view text) {
  size_t size = text.size();
  while (size > 0 && text.size() - size < CallXml::kSpacesMax && IsJsonSpace(text[size - 1]))
    --size;
  const bool ends = text.substr(0, size).ends_with(kFunctionEnd);
  return ends ? size - kFunctionEnd.size() : std::string_view::npos;
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
      if (IsJsonSpace(c)) return Result::kMore;
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
  state_ = State::kValue;
  BeginParameter();
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

void CallXml::BeginParameter() {
  key_ = std::exchange(text_, {});
  repeats_ = std::find(keys_.begin(), keys_.end(), key_) != keys_.end();
  if (!repeats_) keys_.push_back(key_);
  is_text_ = types_->IsText(key_);
  has_key_ = false;
  value_at_ = 0;
}

CallReader::Result CallXml::InValue(char c) {
  text_.push_back(c);
  if (text_ == "\n") value_at_ = 1;
  if (text_.ends_with(kParameterEnd)) {
    EndParameter(text_.size() - kParameterEnd.size());
    state_ = State::kBody;
    return Result::kMore;
  }
  if (text_.ends_with(kParameterTag)) {
    const size_t size = text_.size() - kParameterTag.size();
    if (size > 0 && text_[size - 1] == '\n') {
      EndParameter(size, kParameterTag.size());
      text_.clear();
      state_ = State::kKey;
      return Result::kMore;
    }
  }
  if (text_.ends_with(kCallEnd)) {
    const size_t size =
        FunctionEndAt(std::string_view(text_).substr(0, text_.size() - kCallEnd.size()));
    if (size != std::string_view::npos) {
      EndParameter(size);
      closed_tag_ = true;
      return End();
    }
  }
  if (is_text_ && !repeats_) AppendText(MayEndAt());
  return Result::kMore;
}

size_t CallXml::MayEndAt() const {
  const std::string_view text = text_;
  size_t end = text.size();
  // A tag that has begun. None is longer than </parameter>.
  const size_t window = end - std::min(end, kParameterEnd.size());
  if (size_t tag = text.substr(window).rfind('<'); tag != std::string_view::npos) {
    tag += window;
    const std::string_view begun = text.substr(tag);
    const bool tag_of_value = kParameterEnd.starts_with(begun) ||
                              kParameterTag.starts_with(begun) || kFunctionEnd.starts_with(begun);
    if (tag_of_value) end = tag;
    if (kCallEnd.starts_with(begun)) end = std::min(end, FunctionEndAt(text.substr(0, tag)));
  }
  end = std::min(end, FunctionEndAt(text));
  // A character that is not whole.
  size_t first = end;
  while (first > 0 && end - first < 4 &&
         unicode::IsUtf8Continuation(static_cast<unsigned char>(text[first - 1])))
    --first;
  if (first > 0) {
    const int length = unicode::Utf8Length(static_cast<unsigned char>(text[first - 1]));
    if (first - 1 + static_cast<size_t>(length) > end) end = first - 1;
  }
  // The line break before the tag.
  return end > 0 && text[end - 1] == '\n' ? end - 1 : end;
}

void CallXml::AppendKey() {
  arguments_ += arguments_.empty() ? "{" : ", ";
  AppendJsonString(key_, &arguments_);
  arguments_ += ": ";
  has_key_ = true;
}

void CallXml::AppendText(size_t end) {
  if (end <= value_at_) return;
  if (!has_key_) {
    AppendKey();
    arguments_ += '"';
  }
  std::string quoted;
  AppendJsonString(std::string_view(text_).substr(value_at_, end - value_at_), &quoted);
  arguments_.append(quoted, 1, quoted.size() - 2);
  value_at_ = end;
  told_bytes_ = size_ - (text_.size() - end);
}

void CallXml::EndParameter(size_t size, size_t unused) {
  const size_t begin = text_.starts_with('\n') ? 1 : 0;
  if (size > begin && text_[size - 1] == '\n') --size;
  if (repeats_) {
    told_bytes_ = size_ - unused;
    return;
  }
  if (is_text_) {
    AppendText(size);
    if (!has_key_) {
      AppendKey();
      arguments_ += '"';
    }
    arguments_ += '"';
  } else {
    AppendKey();
    arguments_ +=
        types_->Json(key_, std::string_view(text_).substr(begin, std::max(size, begin) - begin));
  }
  told_bytes_ = size_ - unused;
}

CallReader::Result CallXml::End() {
  arguments_ += arguments_.empty() ? "{}" : "}";
  told_bytes_ = size_;
  stands_at_ = size_;
  return Result::kDone;
}

}  // namespace penstock::reply
