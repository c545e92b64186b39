// TextConstraint: holds one text to a grammar, from where its thinking ends, or from where it calls
// a tool.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "generate/grammar_use.h"
#include "generate/text_model.h"
#include "grammar/constraint.h"

namespace penstock::generate {

// Not thread-safe. A default one allows any text.
class TextConstraint {
 public:
  TextConstraint() = default;
  // `use.grammar` may be null; the model must outlive it. Errors: those of Grammar::Begin and
  // Constraint::Mask.
  static Expected<TextConstraint> Make(const TextModel& model, const GrammarUse& use);
  // The most bytes that one allocates, beside its grammar.
  static int64_t HeapBytes(const TextModel& model);

  // The tokens that may come next, as sample::Logits has them; empty: all may.
  std::span<const uint32_t> allowed() const { return allowed_; }
  // Whether some token may ever be forbidden.
  bool holds() const { return state_ != State::kAny; }
  // The next token of the text, and the text that the decoder made of it.
  // kInternal: see Constraint.
  Status Accept(int32_t id, std::string_view piece);
  // Nothing but an end can follow.
  bool complete() const { return complete_; }
  // Tokens of what must come next, where it is certain, at most `most`: those of its text as the
  // tokenizer cuts it, but for the last one, which may be a longer one with what follows.
  std::vector<int32_t> Forced(size_t most);

 private:
  enum class State { kAny, kBegin, kThinking, kHeld, kFree };
  Status Begin();
  Status Follow();
  Status AcceptHeld(int32_t id);
  void BoundSpaces();
  void AcceptFree(int32_t id);
  Status AcceptThinking(std::string_view piece);
  // The bytes of a token; "" for most special ones.
  std::string_view BytesOf(int32_t id) const;
  void BeginFree();
  bool BeginsThinking(std::string_view bytes);
  // Where in tail_ a call begins, and the bytes of a trigger that may stand before it; npos: nowhere.
  size_t FindTrigger(size_t* size) const;
  bool BeginCall(std::string_view text, std::string_view behind);

  State state_ = State::kAny;
  const TextModel* model_ = nullptr;
  GrammarUse use_;
  std::unique_ptr<grammar::Constraint> constraint_;
  int32_t think_token_ = -1;  // that begins thinking; -1: none does
  int spaces_ = 0;            // how many of the last tokens were whitespace alone
  size_t tail_max_ = 0;
  std::string head_;    // the first of free text, while it may be a marker of thinking
  bool spoke_ = false;  // there was an answer, behind which nothing is thinking
  std::string tail_;    // the last of the thinking, or of free text
  std::vector<uint32_t> mask_;
  std::span<const uint32_t> allowed_;  // mask_, or empty
  bool complete_ = false;
  bool may_be_forced_ = false;
};

}  // namespace penstock::generate
