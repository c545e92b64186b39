#include "reply/reply_parser.h"

#include <utility>

#include "reply/call_id.h"
#include "reply/call_json.h"
#include "reply/call_xml.h"
#include "reply/json_space.h"

namespace penstock::reply {
namespace {

using Kind = ReplyDelta::Kind;

constexpr size_t kGapBytesMax = 64;  // a longer run of whitespace is text

bool HasTags(ToolForm form) { return form == ToolForm::kHermes || form == ToolForm::kQwenCoder; }

}  // namespace

ReplyParser::ReplyParser(ReplyOptions options) : options_(std::move(options)) {
  const ReplyFormat& format = options_.format;
  if (format.begins_thinking && !format.think_end.empty()) {
    state_ = State::kThinking;
    trims_ = true;
  }
}

void ReplyParser::Add(std::string_view text, std::vector<ReplyDelta>* out) {
  out_ = out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool plain = state_ == State::kText && !trims_ && gap_.empty() && partial_.empty();
    if (plain && !Watches()) return Emit(Kind::kContent, text.substr(i));
    Step(text[i]);
  }
}

void ReplyParser::Finish(std::vector<ReplyDelta>* out) {
  out_ = out;
  while (state_ == State::kOpened || state_ == State::kCall) Break(nullptr);
  const bool markup = behind_call_ && partial_.empty();
  const Kind text = markup ? Kind::kMarkup : Kind::kContent;
  Emit(state_ == State::kThinking ? Kind::kReasoning : text, gap_ + partial_);
  gap_.clear();
  partial_.clear();
}

size_t ReplyParser::held_bytes() const {
  return gap_.size() + partial_.size() + (begun_ ? 0 : raw_.size());
}

void ReplyParser::Step(char c) {
  switch (state_) {
    case State::kText:
      return StepText(c);
    case State::kThinking:
      return StepThinking(c);
    case State::kOpened:
      return StepOpened(c);
    case State::kCall:
      return StepCall(c);
  }
}

// ---- Text

bool ReplyParser::CallsOn() const {
  return options_.tools != nullptr && !options_.tools->empty() &&
         options_.format.tools != ToolForm::kNone && calls_ < options_.limits.calls_max;
}

bool ReplyParser::Watches() const {
  return (!spoke_ && !options_.format.think_begin.empty()) || CallsOn() || behind_call_ ||
         tag_open_ || in_array_;
}

bool ReplyParser::IsGap(char c) const {
  if (IsJsonSpace(c)) return true;
  if (!behind_call_) return false;
  return (c == ';' && options_.format.tools == ToolForm::kLlama) || (c == ',' && in_array_);
}

void ReplyParser::StepText(char c) {
  if (trims_ && IsJsonSpace(c)) return Emit(Kind::kMarkup, {&c, 1});
  trims_ = false;
  if (partial_.empty() && IsGap(c) && Watches()) {
    gap_.push_back(c);
    line_begins_ |= c == '\n';
    if (gap_.size() >= kGapBytesMax) EmitContent(std::exchange(gap_, {}));
    return;
  }
  partial_.push_back(c);
  Marker marker;
  switch (FindMarker(partial_, &marker)) {
    case Match::kPart:
      return;
    case Match::kWhole:
      return Open(marker);
    case Match::kNone:
      return Retry();
  }
}

void ReplyParser::Retry() {
  const std::string again = std::exchange(partial_, {});
  const std::string free = std::exchange(gap_, {}) + again[0];
  if (state_ == State::kThinking) {
    trims_ = false;
    Emit(Kind::kReasoning, free);
  } else {
    EmitContent(free);
  }
  for (size_t i = 1; i < again.size(); ++i) Step(again[i]);
}

ReplyParser::Match ReplyParser::FindMarker(std::string_view text, Marker* marker) const {
  const ReplyFormat& format = options_.format;
  const bool calls = CallsOn();
  const bool llama = calls && format.tools == ToolForm::kLlama;
  const bool tags = calls && HasTags(format.tools);
  const bool next_object = calls && behind_call_ && (tag_open_ || in_array_);
  const struct {
    std::string_view text;
    Marker marker;
    bool on;
  } markers[] = {
      {format.think_begin, Marker::kThink, !spoke_ && !format.think_begin.empty()},
      {"<tool_call>", Marker::kTag, tags},
      {"</tool_call>", Marker::kTagEnd, tag_open_},
      {CallXml::kFunctionTag, Marker::kFunction, calls && format.tools == ToolForm::kQwenCoder},
      {"<|python_tag|>", Marker::kPython, llama},
      {"{", Marker::kObject, next_object || (llama && (line_begins_ || behind_call_))},
      {"[TOOL_CALLS]", Marker::kMistral, calls && IsMistral(format.tools)},
      {"]", Marker::kArrayEnd, in_array_},
  };
  Match match = Match::kNone;
  for (const auto& known : markers) {
    if (!known.on || !known.text.starts_with(text)) continue;
    *marker = known.marker;
    if (known.text.size() == text.size()) return Match::kWhole;
    match = Match::kPart;
  }
  return match;
}

void ReplyParser::StepThinking(char c) {
  const ReplyFormat& format = options_.format;
  if (partial_.empty() && IsJsonSpace(c)) {
    if (trims_) return Emit(Kind::kMarkup, {&c, 1});
    gap_.push_back(c);
    if (gap_.size() >= kGapBytesMax) Emit(Kind::kReasoning, std::exchange(gap_, {}));
    return;
  }
  partial_.push_back(c);
  const bool ends = partial_ == format.think_end;
  // A model may repeat the begin that the prompt had.
  if (ends || (trims_ && partial_ == format.think_begin)) {
    Emit(Kind::kMarkup, std::exchange(gap_, {}) + std::exchange(partial_, {}));
    if (ends) state_ = State::kText;
    trims_ = true;
    return;
  }
  if (format.think_end.starts_with(partial_)) return;
  if (trims_ && format.think_begin.starts_with(partial_)) return;
  Retry();
}

// ---- Calls

void ReplyParser::Open(Marker marker) {
  std::string text = std::exchange(partial_, {});
  switch (marker) {
    case Marker::kThink:
    case Marker::kTagEnd:
    case Marker::kArrayEnd:
      Emit(Kind::kMarkup, std::exchange(gap_, {}) + text);
      if (marker == Marker::kThink) {
        state_ = State::kThinking;
        trims_ = true;
      } else {
        behind_call_ = true;
        line_begins_ = true;
        (marker == Marker::kTagEnd ? tag_open_ : in_array_) = false;
      }
      return;
    default:
      break;
  }
  opened_by_ = marker;
  array_ = marker == Marker::kObject && in_array_;
  begun_ = false;
  told_ = 0;
  if (marker == Marker::kObject) {
    const bool bare = options_.format.tools == ToolForm::kLlama;
    Start(std::make_unique<CallJson>(*options_.tools, options_.limits.call, bare), text);
  } else if (marker == Marker::kFunction) {
    Start(std::make_unique<CallXml>(*options_.tools, options_.limits.call), text);
  } else {
    raw_ = std::move(text);
    state_ = State::kOpened;
  }
}

void ReplyParser::Start(std::unique_ptr<CallReader> reader, std::string_view first) {
  reader_ = std::move(reader);
  reader_at_ = raw_.size();
  state_ = State::kCall;
  for (const char c : first) Step(c);
}

void ReplyParser::StepOpened(char c) {
  const ToolSet& tools = *options_.tools;
  const CallLimits& limits = options_.limits.call;
  const std::string_view first(&c, 1);
  if (IsJsonSpace(c) && raw_.size() < options_.limits.call_bytes_max) {
    raw_.push_back(c);
    return;
  }
  if (c == '{') return Start(std::make_unique<CallJson>(tools, limits, false), first);
  if (opened_by_ == Marker::kTag && c == '<') {
    return Start(std::make_unique<CallXml>(tools, limits), first);
  }
  if (opened_by_ == Marker::kMistral && !array_) {
    if (c != '[') return Start(std::make_unique<CallNamed>(tools, limits), first);
    array_ = true;
    raw_.push_back(c);
    return;
  }
  Break(&c);
}

void ReplyParser::StepCall(char c) {
  // A character is not cut.
  const bool fits = raw_.size() < options_.limits.call_bytes_max || (c & 0xC0) == 0x80;
  const CallReader::Result result = fits ? reader_->Next(c) : CallReader::Result::kBad;
  if (result == CallReader::Result::kBad) return Break(&c);
  raw_.push_back(c);
  if (result == CallReader::Result::kDone) return Accept();
  if (options_.streams_arguments) Tell();
}

void ReplyParser::Tell() {
  const std::string& arguments = reader_->arguments();
  if (reader_->tool() == nullptr || arguments.empty()) return;
  if (!begun_) {
    Emit(Kind::kMarkup, std::exchange(gap_, {}));
    ReplyDelta begin;
    begin.kind = Kind::kCallBegin;
    begin.call = calls_;
    begin.id = CallId(options_.format.tools, options_.id_seed, calls_);
    begin.name = reader_->tool()->name;
    out_->push_back(std::move(begin));
    ++calls_;
    begun_ = true;
    spoke_ = true;
  }
  Emit(Kind::kCallArguments, std::string_view(arguments).substr(told_), calls_ - 1);
  told_ = arguments.size();
}

void ReplyParser::End(bool complete) {
  ReplyDelta end;
  end.kind = Kind::kCallEnd;
  end.call = calls_ - 1;
  end.text = std::exchange(raw_, {});
  end.complete = complete;
  out_->push_back(std::move(end));
  state_ = State::kText;
  behind_call_ = complete;
  line_begins_ = complete;
  tag_open_ = complete && HasTags(options_.format.tools) && !reader_->closed_tag();
  in_array_ = complete && array_;
  reader_.reset();
  begun_ = false;
}

void ReplyParser::Accept() {
  Tell();
  End(true);
}

void ReplyParser::Break(const char* c) {
  std::string again;
  const size_t stands_at = reader_ ? reader_->stands_at() : 0;
  if (stands_at > 0 || begun_) {
    const size_t size = reader_at_ + (stands_at > 0 ? stands_at : reader_->told_bytes());
    again = raw_.substr(size);
    raw_.resize(size);
    if (stands_at > 0) {
      Accept();
    } else {
      End(false);
    }
  } else {
    const std::string text = std::exchange(gap_, {}) + std::exchange(raw_, {});
    reader_.reset();
    state_ = State::kText;
    if (opened_by_ != Marker::kObject) tag_open_ = false;
    EmitContent(text);
  }
  if (c != nullptr) again.push_back(*c);
  for (const char next : again) Step(next);
}

// ---- Deltas

void ReplyParser::Emit(Kind kind, std::string_view text, int call) {
  if (text.empty()) return;
  if (out_->empty() || out_->back().kind != kind || out_->back().call != call) {
    out_->emplace_back();
    out_->back().kind = kind;
    out_->back().call = call;
  }
  out_->back().text += text;
}

void ReplyParser::EmitContent(std::string_view text) {
  for (const char c : text) {
    if (IsJsonSpace(c)) {
      line_begins_ |= c == '\n';
      continue;
    }
    line_begins_ = false;
    spoke_ = true;
    behind_call_ = false;
    in_array_ = false;
  }
  Emit(Kind::kContent, text);
}

}  // namespace penstock::reply
