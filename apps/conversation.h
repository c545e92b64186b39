// A conversation with a model, in this process (ChatSession) or at a server (RemoteChat).
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/status.h"
#include "chat/json_value.h"
#include "generate/decode_job.h"
#include "reply/reply_parser.h"

namespace penstock::cli {

struct ChatReply {
  generate::FinishReason finish = generate::FinishReason::kStop;
  generate::DecodeUsage usage;
  int signal = 0;     // SIGINT or SIGTERM, which stopped it; 0: none
  bool kept = false;  // the conversation has it
};

class Conversation {
 public:
  using OnDelta = std::function<void(const reply::ReplyDelta&)>;

  virtual ~Conversation() = default;

  // "": none; the template may have one of its own.
  void SetSystem(std::string text) { system_ = std::move(text); }
  const std::string& system() const { return system_; }
  // Forgets all messages but the system's.
  void Reset() { messages_.clear(); }

  // "NAME VALUE": sets one of the settings of SetChatOption (chat_message.h), with its errors.
  virtual Status Set(const std::string& given) = 0;
  // The settings in force, a line each.
  virtual std::string Settings() const = 0;

  // Adds a message and its reply; if a signal stops the reply, the part that came. Without a reply
  // the message is removed again: after an error (kInvalidArgument: the template refuses the
  // message, or the context is full, with both numbers), or if a signal came before the first text.
  Expected<ChatReply> Say(const std::string& message, const OnDelta& on_delta);
  // The last reply once more; with a seed that was given, by the next one. kInvalidArgument: no
  // reply was given yet.
  Expected<ChatReply> Retry(const OnDelta& on_delta);

 protected:
  // The reply to the messages, which has been added where it is kept.
  virtual Expected<ChatReply> MakeReply(const OnDelta& on_delta) = 0;
  // Adds the reply.
  void Keep(std::string content, std::string reasoning);
  // With the system's.
  chat::JsonValue::Array AllMessages() const;
  uint64_t retries() const { return retries_; }  // of the last message

 private:
  std::string system_;
  chat::JsonValue::Array messages_;  // of user and model, in turn
  uint64_t retries_ = 0;
};

}  // namespace penstock::cli
