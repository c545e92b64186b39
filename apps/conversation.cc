#include "conversation.h"

#include <utility>

namespace penstock::cli {
namespace {

chat::JsonValue Message(const char* role, std::string content) {
  return chat::JsonValue::Object{{"role", role}, {"content", std::move(content)}};
}

}  // namespace

Expected<ChatReply> Conversation::Say(const std::string& message, const OnDelta& on_delta) {
  messages_.push_back(Message("user", message));
  retries_ = 0;
  auto reply = MakeReply(on_delta);
  if (!reply.ok() || !reply->kept) messages_.pop_back();
  return reply;
}

Expected<ChatReply> Conversation::Retry(const OnDelta& on_delta) {
  if (messages_.empty()) return Status::InvalidArgument("there is no reply yet");
  const chat::JsonValue before = std::move(messages_.back());
  messages_.pop_back();
  ++retries_;
  auto reply = MakeReply(on_delta);
  if (!reply.ok() || !reply->kept) messages_.push_back(before);
  return reply;
}

void Conversation::Keep(std::string content, std::string reasoning) {
  chat::JsonValue message = Message("assistant", std::move(content));
  if (!reasoning.empty()) message.Set("reasoning_content", std::move(reasoning));
  messages_.push_back(std::move(message));
}

chat::JsonValue::Array Conversation::AllMessages() const {
  chat::JsonValue::Array all;
  if (!system_.empty()) all.push_back(Message("system", system_));
  all.insert(all.end(), messages_.begin(), messages_.end());
  return all;
}

}  // namespace penstock::cli
