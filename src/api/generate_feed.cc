#include "api/generate_feed.h"

#include "log/exception_status.h"

namespace penstock::api {
namespace {

// Bytes of a list's entry, with what the heap adds.
constexpr size_t kEntryBytes = 32;

reply::ReplyDelta Content(std::string_view text) {
  reply::ReplyDelta delta;
  delta.text = std::string(text);
  return delta;
}

}  // namespace

void GenerateFeed::Begin(GenerateBegun begun, Reading reading) {
  {
    const std::lock_guard lock(mutex_);
    began_ = true;
    begun_ = std::move(begun);
    reading_ = std::move(reading);
  }
  if (each_) wake_();
}

Status GenerateFeed::Add(Raw raw) {
  const auto bytes = static_cast<int64_t>(sizeof(Raw) + kEntryBytes + raw.text.size() +
                                          raw.token.top.size() * sizeof(sample::TokenLogprob));
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    if (memory_ != nullptr) {
      PENSTOCK_RETURN_IF_ERROR(memory_->Take(bytes));
      waiting_bytes_ += bytes;
    }
    first = waiting_.empty();
    waiting_.push_back(std::move(raw));
  }
  if (each_ && first) wake_();
  return Status::Ok();
}

void GenerateFeed::AddPrompt(int32_t prompt, std::span<const generate::GeneratedToken> tokens,
                             bool last) {
  Raw raw;
  raw.choice = prompt;
  raw.prompt.assign(tokens.begin(), tokens.end());
  raw.ends = last;
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = waiting_.empty();
    waiting_.push_back(std::move(raw));
  }
  if (first) wake_();
}

Status GenerateFeed::AddToken(int32_t choice, const generate::GeneratedToken& token,
                              std::string_view text) {
  Raw raw;
  raw.choice = choice;
  raw.token = token;
  raw.text = std::string(text);
  return Add(std::move(raw));
}

Status GenerateFeed::AddChoiceEnd(int32_t choice, generate::FinishReason reason,
                                  std::string_view text, int stop_string) {
  Raw raw;
  raw.choice = choice;
  raw.ends = true;
  raw.reason = reason;
  raw.stop_string = stop_string;
  raw.text = std::string(text);
  return Add(std::move(raw));
}

void GenerateFeed::End(GenerateEnd end) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    ended_ = true;
    end_ = std::move(end);
  }
  RunGuarded("generation", wake_);
}

std::optional<GenerateEvent> GenerateFeed::Next() {
  if (at_ < taken_.size()) return Read(std::move(taken_[at_++]));
  taken_.clear();
  at_ = 0;
  {
    const std::lock_guard lock(mutex_);
    if (memory_ != nullptr && each_) memory_->Give(taken_bytes_);
    taken_bytes_ = 0;
    if (begun_) {
      if (reading_.logprobs)
        texts_ = std::make_unique<text::TokenTexts>(&reading_.model->tokenizer());
      return *std::exchange(begun_, std::nullopt);
    }
    if (began_) {
      taken_.swap(waiting_);
      taken_bytes_ = std::exchange(waiting_bytes_, 0);
    }
    if (taken_.empty()) {
      if (!end_) return std::nullopt;
      texts_.reset();
      reading_.model.reset();
      return *std::exchange(end_, std::nullopt);
    }
  }
  return Read(std::move(taken_[at_++]));
}

void GenerateFeed::ReadText(Choice* choice, std::string_view text,
                            std::vector<reply::ReplyDelta>* deltas) const {
  if (text.empty()) return;
  if (choice->parser) return choice->parser->Add(text, deltas);
  deltas->push_back(Content(text));
}

void GenerateFeed::CountCalls(const std::vector<reply::ReplyDelta>& deltas, Choice* choice) {
  for (const reply::ReplyDelta& delta : deltas) {
    if (delta.kind == reply::ReplyDelta::Kind::kCallEnd && delta.complete) ++choice->calls;
  }
}

TokenInfo GenerateFeed::InfoOf(const generate::GeneratedToken& token) const {
  const auto fill = [&](int32_t id, float logprob) {
    return TokenText{id, logprob, texts_->IsSpecial(id), texts_->Bytes(id)};
  };
  TokenInfo info;
  static_cast<TokenText&>(info) = fill(token.id, token.logprob);
  for (const sample::TokenLogprob& other : token.top)
    info.top.push_back(fill(other.id, other.logprob));
  return info;
}

GenerateEvent GenerateFeed::Read(Raw raw) {
  if (!raw.prompt.empty()) {
    PromptPart part;
    part.prompt = raw.choice;
    part.last = raw.ends;
    if (texts_ == nullptr) return part;
    for (const generate::GeneratedToken& token : raw.prompt) part.tokens.push_back(InfoOf(token));
    return part;
  }
  const auto index = static_cast<size_t>(raw.choice);
  if (choices_.size() <= index) choices_.resize(index + 1);
  Choice& choice = choices_[index];
  if (!choice.parser && index < reading_.replies.size()) {
    choice.parser.emplace(reading_.replies[index]);
  }
  if (raw.ends) {
    ChoiceEnd end;
    end.choice = raw.choice;
    end.reason = raw.reason;
    end.stop_string = raw.stop_string;
    end.tokens = choice.tokens;
    end.reasoning_tokens = choice.reasoning_tokens;
    ReadText(&choice, raw.text, &end.deltas);
    if (choice.parser) {
      choice.parser->Finish(&end.deltas);
      CountCalls(end.deltas, &choice);
      end.calls = choice.calls;
      // What came of a call that the model broke off is told: the answer counts as cut, so that no
      // client makes such a call.
      const bool broken = choice.parser->calls() > choice.calls;
      if (broken && end.reason == generate::FinishReason::kStop) {
        end.reason = generate::FinishReason::kLength;
      }
    }
    return end;
  }
  ++choice.tokens;
  if (choice.parser && choice.parser->thinking()) ++choice.reasoning_tokens;
  GeneratedPart part;
  part.choice = raw.choice;
  ReadText(&choice, raw.text, &part.deltas);
  CountCalls(part.deltas, &choice);
  if (texts_ != nullptr) part.token = InfoOf(raw.token);
  return part;
}

}  // namespace penstock::api
