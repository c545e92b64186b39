// GenerateFeed: the events of one request on their way from the model's step thread to the front
// end.
//
//   step thread: OnToken, OnSampleEnd     consumer, a worker: Next
//   appends what it was given             makes texts of tokens, parses replies
//
// The step thread only appends to a list under a mutex that the consumer holds for the time of a
// swap. The list is as long as the text to come at most, and takes its bytes of the request's
// memory; a streamed answer gives them back as it is read. Nothing that was appended is lost.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/generate_model.h"
#include "api/generate_types.h"
#include "base/status.h"
#include "text/token_texts.h"
#include "threads/byte_budget.h"

namespace penstock::api {

class GenerateFeed {
 public:
  // `wake` runs on a producer's thread, must not block, and has the consumer call Next until it
  // gives nothing. `each`: it is called whenever there is something new; else at the end alone.
  GenerateFeed(bool each, std::function<void()> wake) : each_(each), wake_(std::move(wake)) {}
  GenerateFeed(const GenerateFeed&) = delete;
  GenerateFeed& operator=(const GenerateFeed&) = delete;

  // How the consumer makes parts of tokens.
  struct Reading {
    std::shared_ptr<GenerateModel> model;      // its tokenizer is used until the end
    std::vector<reply::ReplyOptions> replies;  // of each choice; empty: all is content
    bool logprobs = false;
  };

  // ---- Producers, one of a choice at a time. `memory` may be null; SetMemory comes first. Tokens
  // may come before Begin; they wait for it.
  void SetMemory(std::shared_ptr<RequestMemory> memory) { memory_ = std::move(memory); }
  void Begin(GenerateBegun begun, Reading reading);
  // The memory for the tokens was taken before. `last`: the prompt is whole. The consumer is woken,
  // so that it makes texts of tokens while more are computed.
  void AddPrompt(int32_t prompt, std::span<const generate::GeneratedToken> tokens, bool last);
  // AddToken and AddChoiceEnd fail if no memory is left; then the request is to be ended.
  Status AddToken(int32_t choice, const generate::GeneratedToken& token, std::string_view text);
  Status AddChoiceEnd(int32_t choice, generate::FinishReason reason, std::string_view text,
                      int stop_string);
  // The last; only the first call counts.
  void End(GenerateEnd end) noexcept;

  // ---- The consumer, one thread at a time. nullopt: no event waits.
  std::optional<GenerateEvent> Next();

 private:
  struct Raw {
    int32_t choice = 0;  // or prompt
    bool ends = false;
    std::vector<generate::GeneratedToken> prompt;  // of a PromptPart, where not empty
    generate::FinishReason reason = generate::FinishReason::kStop;
    int stop_string = -1;
    generate::GeneratedToken token;
    std::string text;
  };
  struct Choice {
    std::optional<reply::ReplyParser> parser;
    int32_t tokens = 0;
    int32_t reasoning_tokens = 0;
    int calls = 0;  // that are told as whole
  };

  Status Add(Raw raw);
  static void CountCalls(const std::vector<reply::ReplyDelta>& deltas, Choice* choice);
  GenerateEvent Read(Raw raw);
  TokenInfo InfoOf(const generate::GeneratedToken& token) const;
  void ReadText(Choice* choice, std::string_view text,
                std::vector<reply::ReplyDelta>* deltas) const;

  const bool each_;
  const std::function<void()> wake_;

  std::mutex mutex_;
  // All guarded by mutex_.
  std::optional<GenerateBegun> begun_;
  std::vector<Raw> waiting_;  // not read before `began_`
  int64_t waiting_bytes_ = 0;
  bool began_ = false;
  std::optional<GenerateEnd> end_;
  bool ended_ = false;
  Reading reading_;  // set by Begin, then the consumer's
  std::shared_ptr<RequestMemory> memory_;

  // The consumer's.
  std::vector<Raw> taken_;
  size_t at_ = 0;  // in taken_
  int64_t taken_bytes_ = 0;
  std::vector<Choice> choices_;
  std::unique_ptr<text::TokenTexts> texts_;
};

}  // namespace penstock::api
