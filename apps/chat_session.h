// One conversation with a model: its messages, and replies made by a decode scheduler, whose cache
// of prefixes keeps what was said.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chat/chat_template.h"
#include "chat_signals.h"
#include "common/status.h"
#include "generate/decode_scheduler.h"
#include "generate/text_model.h"
#include "reply/reply_format.h"
#include "reply/reply_parser.h"

namespace penstock {

struct ChatReply {
  FinishReason finish = FinishReason::kStop;
  DecodeUsage usage;
  int signal = 0;     // SIGINT or SIGTERM, which stopped it; 0: none
  bool kept = false;  // the conversation has it
};

class ChatSession {
 public:
  using OnDelta = std::function<void(const ReplyDelta&)>;

  // `model`, `metrics` and `signals` must outlive it. `variables`: an object for the template.
  static Expected<std::unique_ptr<ChatSession>> Make(const TextModel* model, ChatTemplate made,
                                                     JsonValue variables, Metrics* metrics,
                                                     ChatSignals* signals);

  // "": none; the template may have one of its own.
  void SetSystem(std::string text) { system_ = std::move(text); }
  const std::string& system() const { return system_; }
  SamplingOptions& sampling() { return sampling_; }

  // Forgets all messages but the system's.
  void Reset() { messages_.clear(); }

  // Adds a message and its reply, as far as it came when a signal stopped it. The message is taken
  // back where there is no reply: with an error (kInvalidArgument: the template refuses it, or the
  // context is full, with both numbers), or where a signal came before the first text.
  Expected<ChatReply> Say(const std::string& message, const OnDelta& on_delta);
  // The last reply once more; with a seed that was given, by the next one. kInvalidArgument: no
  // reply was given yet.
  Expected<ChatReply> Retry(const OnDelta& on_delta);

 private:
  class Sink;
  ChatSession(const TextModel* model, ChatTemplate made, JsonValue variables, ChatSignals* signals);
  Expected<std::string> Render() const;
  Expected<ChatReply> MakeReply(const OnDelta& on_delta);
  // Hands the reply's text on until it has ended.
  Status Follow(Sink* sink, CancelToken* cancel, ReplyParser* parser, const OnDelta& on_delta,
                ChatReply* reply);

  const TextModel* const model_;
  const ChatTemplate template_;
  const JsonValue variables_;
  ChatSignals* const signals_;
  ReplyFormat format_;
  std::vector<int32_t> shown_;  // special tokens that the parser of replies reads
  std::unique_ptr<DecodeScheduler> scheduler_;
  std::string system_;
  SamplingOptions sampling_;
  JsonValue::Array messages_;  // of user and model, in turn
  uint64_t retries_ = 0;       // of the last message
};

}  // namespace penstock
