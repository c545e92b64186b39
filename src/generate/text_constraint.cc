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
  if (use.begins_thinking && !use.think_end.empty()) {
    made.state_ = State::kThinking;
    return made;
  }
  if (!use.think_begin.empty()) made.think_token_ = model.tokenizer->TokenToId(use.think_begin);
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
  size_t ends = 0;
  for (const int32_t id : use_.grammar->vocabulary().ends)
    ends += grammar::Allows(mask_, id) ? 1 : 0;
  complete_ = all == ends;
  may_be_forced_ = ends == 0 && all <= kForcedTokensMax;
  return Status::Ok();
}

Status TextConstraint::Accept(int32_t id, std::string_view piece) {
  if (state_ == State::kAny) return Status::Ok();
  if (state_ == State::kBegin) {
    if (id == think_token_) {
      constraint_.reset();
      allowed_ = {};
      state_ = State::kThinking;
      return Status::Ok();
    }
    state_ = State::kHeld;
  }
  if (state_ == State::kHeld) {
    const std::vector<int32_t>& ends = use_.grammar->vocabulary().ends;
    if (std::find(ends.begin(), ends.end(), id) != ends.end()) {
      complete_ = true;
      return Status::Ok();
    }
    PENSTOCK_RETURN_IF_ERROR(constraint_->Accept(id));
    return Follow();
  }
  tail_ += piece;
  const size_t end = tail_.find(use_.think_end);
  if (end == std::string::npos) {
    const size_t kept = use_.think_end.size() - 1;
    if (tail_.size() > kept) tail_.erase(0, tail_.size() - kept);
    return Status::Ok();
  }
  const std::string_view after = std::string_view(tail_).substr(end + use_.think_end.size());
  if (after.find_first_not_of(kSpace) != std::string_view::npos) {
    return Status::Internal("a token holds the end of the thinking and the begin of the answer");
  }
  return Begin();
}

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
