#include "generate/text_constraint.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "generate/text_stream.h"

namespace penstock::generate {
namespace {

// Forced text is looked for where at most this number of tokens is allowed: they all begin alike.
constexpr size_t kForcedTokensMax = 512;
constexpr size_t kForcedBytesMax = 4096;

constexpr std::string_view kSpace = " \t\r\n";

// Tokens of whitespace in a row: more than any indentation takes.
constexpr int kSpacesMax = 20;

// The bytes of free text that are kept before what may be a trigger.
constexpr size_t kTriggerTail = 64;

// Where more of the vocabulary than this part is allowed, whitespace is a part of a text.
constexpr size_t kTextPart = 4;

}  // namespace

int64_t TextConstraint::HeapBytes(const TextModel& model) {
  // The states of a matcher grow with the text; a state is some 50 bytes, a token has a few.
  constexpr int64_t kStates = 64 << 10;
  return kStates + static_cast<int64_t>(grammar::MaskWords(VocabularyOf(model)) * sizeof(uint32_t));
}

Expected<TextConstraint> TextConstraint::Make(const TextModel& model, const GrammarUse& use) {
  TextConstraint made;
  if (use.grammar == nullptr) return made;
  made.model_ = &model;
  made.use_ = use;
  made.mask_.resize(grammar::MaskWords(VocabularyOf(model)));
  if (!use.think_begin.empty()) made.think_token_ = model.tokenizer->TokenToId(use.think_begin);
  made.tail_max_ = kTriggerTail;
  if (use.calls != nullptr) {
    for (const std::string& trigger : use.calls->line_begin) {
      made.tail_max_ = std::max(made.tail_max_, kTriggerTail + trigger.size());
    }
  }
  if (use.begins_thinking && !use.think_end.empty()) {
    made.state_ = State::kThinking;
    return made;
  }
  if (use.calls != nullptr) {
    made.BeginFree();
    return made;
  }
  PENSTOCK_RETURN_IF_ERROR(made.Begin());
  if (made.think_token_ >= 0 && !made.complete_) {
    // The model may think first.
    made.state_ = State::kBegin;
    const auto bit = static_cast<size_t>(made.think_token_);
    made.mask_[bit / 32] |= uint32_t{1} << (bit % 32);
    made.may_be_forced_ = false;
  }
  return made;
}

// The grammar's own begin.
Status TextConstraint::Begin() {
  PENSTOCK_ASSIGN_OR_RETURN(constraint_, use_.grammar->Begin());
  state_ = State::kHeld;
  return Follow();
}

// What may come after the tokens so far.
Status TextConstraint::Follow() {
  PENSTOCK_RETURN_IF_ERROR(constraint_->Mask(mask_));
  allowed_ = mask_;
  size_t all = 0;
  for (const uint32_t word : mask_) all += static_cast<size_t>(std::popcount(word));
  if (all < use_.grammar->vocabulary().tokens.size() / kTextPart) BoundSpaces();
  size_t ends = 0;
  for (const int32_t id : use_.grammar->vocabulary().ends)
    ends += grammar::Allows(mask_, id) ? 1 : 0;
  complete_ = all == ends;
  // A call in a text is written in the model's own tokens.
  may_be_forced_ = use_.calls == nullptr && ends == 0 && all <= kForcedTokensMax;
  return Status::Ok();
}

Status TextConstraint::Accept(int32_t id, std::string_view piece) {
  switch (state_) {
    case State::kAny:
      return Status::Ok();
    case State::kFree:
      AcceptFree(id);
      return Status::Ok();
    case State::kThinking:
      return AcceptThinking(piece);
    case State::kBegin:
      if (id == think_token_) {
        constraint_.reset();
        allowed_ = {};
        state_ = State::kThinking;
        return Status::Ok();
      }
      state_ = State::kHeld;
      [[fallthrough]];
    case State::kHeld:
      break;
  }
  const Status status = AcceptHeld(id);
  if (use_.calls == nullptr) return status;
  // Behind a call, or where one goes wrong, the text is free.
  if (!status.ok() || complete_) BeginFree();
  return Status::Ok();
}

Status TextConstraint::AcceptHeld(int32_t id) {
  const std::vector<int32_t>& ends = use_.grammar->vocabulary().ends;
  if (std::find(ends.begin(), ends.end(), id) != ends.end()) {
    complete_ = true;
    return Status::Ok();
  }
  PENSTOCK_RETURN_IF_ERROR(constraint_->Accept(id));
  const std::vector<uint32_t>& spaces = use_.grammar->vocabulary().spaces;
  spaces_ = !spaces.empty() && grammar::Allows(spaces, id) ? spaces_ + 1 : 0;
  return Follow();
}

// A model that is unsure may write whitespace without end where JSON lets it: something else comes
// after a while, if it may.
void TextConstraint::BoundSpaces() {
  if (spaces_ < kSpacesMax || !use_.grammar->has_spaces()) return;
  const std::vector<uint32_t>& spaces = use_.grammar->vocabulary().spaces;
  bool others = false;
  for (size_t i = 0; i < mask_.size(); ++i) others |= (mask_[i] & ~spaces[i]) != 0;
  if (!others) return;
  for (size_t i = 0; i < mask_.size(); ++i) mask_[i] &= ~spaces[i];
}

Status TextConstraint::AcceptThinking(std::string_view piece) {
  tail_ += piece;
  const size_t end = tail_.find(use_.think_end);
  if (end == std::string::npos) {
    const size_t kept = use_.think_end.size() - 1;
    if (tail_.size() > kept) tail_.erase(0, tail_.size() - kept);
    return Status::Ok();
  }
  if (use_.calls != nullptr) {
    BeginFree();
    return Status::Ok();
  }
  const std::string_view after = std::string_view(tail_).substr(end + use_.think_end.size());
  if (after.find_first_not_of(kSpace) != std::string_view::npos) {
    return Status::Internal("a token holds the end of the thinking and the begin of the answer");
  }
  return Begin();
}

// --- Free text with calls ---------------------------------------------------------------------

void TextConstraint::BeginFree() {
  constraint_.reset();
  allowed_ = {};
  spaces_ = 0;
  complete_ = false;
  may_be_forced_ = false;
  state_ = State::kFree;
  tail_ = "\n";  // a line begins
}

std::string_view TextConstraint::BytesOf(int32_t id) const {
  const grammar::GrammarVocabulary& vocabulary = use_.grammar->vocabulary();
  const auto index = static_cast<size_t>(id);
  if (index < vocabulary.tokens.size() && !vocabulary.tokens[index].empty())
    return vocabulary.tokens[index];
  for (const auto& [marker, text] : vocabulary.markers) {
    if (marker == id) return text;
  }
  return {};
}

void TextConstraint::AcceptFree(int32_t id) {
  const std::string_view bytes = BytesOf(id);
  if (!spoke_ && (id == think_token_ || BeginsThinking(bytes))) {
    state_ = State::kThinking;
    tail_.clear();
    head_.clear();
    return;
  }
  tail_ += bytes;
  size_t size = 0;
  const size_t at = FindTrigger(&size);
  if (at != std::string::npos) {
    const std::string_view call = std::string_view(tail_).substr(at);
    if (BeginCall(call, size == 0 ? std::string_view() : call.substr(size))) return;
    tail_.erase(0, at + std::max<size_t>(size, 1));
  }
  if (tail_.size() > tail_max_) tail_.erase(0, tail_.size() - tail_max_);
}

// Whether the text so far, with `bytes`, is a marker of thinking of several tokens.
bool TextConstraint::BeginsThinking(std::string_view bytes) {
  head_ += bytes;
  const size_t first = head_.find_first_not_of(kSpace);
  if (first == std::string::npos) {
    head_.clear();
    return false;
  }
  const std::string_view text = std::string_view(head_).substr(first);
  if (!use_.think_begin.empty() && text.starts_with(use_.think_begin)) return true;
  spoke_ = !use_.think_begin.starts_with(text);
  if (spoke_) head_.clear();
  return false;
}

size_t TextConstraint::FindTrigger(size_t* size) const {
  size_t first = std::string::npos;
  for (const std::string& trigger : use_.calls->anywhere) {
    const size_t at = tail_.find(trigger);
    if (at >= first) continue;
    first = at;
    *size = trigger.size();
  }
  // A line that begins as a trigger does, spaces and what stands between calls left out.
  for (size_t line = tail_.find('\n'); line < first; line = tail_.find('\n', line + 1)) {
    const size_t at = tail_.find_first_not_of(" \t;", line + 1);
    if (at >= std::min(first, tail_.size())) continue;
    const std::string_view text = std::string_view(tail_).substr(at);
    const auto begins = [&](const std::string& trigger) { return text.starts_with(trigger); };
    if (std::ranges::none_of(use_.calls->line_begin, begins)) continue;
    *size = 0;
    return at;
  }
  return first;
}

// Holds the text from where a call has begun with `text`, of which `behind` follows a trigger that
// only says that a call comes, if it does. False: the grammar has no such call, and the text stays
// free.
bool TextConstraint::BeginCall(std::string_view text, std::string_view behind) {
  auto begun = use_.grammar->Begin();
  if (!begun.ok()) return false;
  constraint_ = *std::move(begun);
  const bool has_trigger = behind.data() != nullptr;
  bool held =
      constraint_->AcceptText(text).ok() || (has_trigger && constraint_->AcceptText(behind).ok());
  held = held && Follow().ok();
  if (held && !complete_) {
    state_ = State::kHeld;
    return true;
  }
  constraint_.reset();
  allowed_ = {};
  complete_ = false;
  may_be_forced_ = false;
  return false;
}

// ----------------------------------------------------------------------------------------------

std::vector<int32_t> TextConstraint::Forced(size_t most) {
  if (!may_be_forced_ || most == 0) return {};
  const std::string text = constraint_->Forced();
  if (text.empty() || text.size() > kForcedBytesMax) return {};
  std::vector<int32_t> ids;
  if (!model_->tokenizer->EncodeText(text, &ids).ok() || ids.size() < 2) return {};
  ids.pop_back();
  // Some tokenizers put a space before a text, or change it.
  size_t at = 0;
  size_t count = 0;
  for (const int32_t id : ids) {
    const auto index = static_cast<size_t>(id);
    const std::vector<std::string>& tokens = use_.grammar->vocabulary().tokens;
    if (index >= tokens.size() || tokens[index].empty()) break;
    if (text.compare(at, tokens[index].size(), tokens[index]) != 0) break;
    at += tokens[index].size();
    ++count;
  }
  ids.resize(std::min(count, most));
  return ids;
}

}  // namespace penstock::generate
