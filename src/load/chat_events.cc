#include "load/chat_events.h"

#include <limits>
#include <utility>

#include "json/json.h"

namespace penstock::load {
namespace {

bool HasText(const JsonObject& object, std::string_view key) {
  const auto found = object.Find(key);
  std::string_view text;
  return found && found->Get(&text) && !text.empty();
}

void ReadUsage(const JsonObject& usage, ChatEvent* event) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const auto number = [&](const JsonObject& object, std::string_view key) {
    const auto found = object.GetIntOr(key, -1, -1, kMost);
    return found.ok() ? *found : -1;
  };
  event->prompt_tokens = number(usage, "prompt_tokens");
  event->completion_tokens = number(usage, "completion_tokens");
  const auto details = usage.GetObjectOrEmpty("prompt_tokens_details");
  if (details.ok()) event->cached_tokens = number(*details, "cached_tokens");
}

void ReadChoice(const JsonObject& choice, ChatEvent* event) {
  event->finish |= choice.Has("finish_reason");
  event->text |= HasText(choice, "text");
  const auto delta = choice.GetObjectOrEmpty("delta");
  if (!delta.ok()) return;
  event->text |= HasText(*delta, "content") || HasText(*delta, "reasoning_content") ||
                 HasText(*delta, "reasoning") || delta->Has("tool_calls");
}

}  // namespace

std::optional<std::string> EventReader::Next() {
  constexpr std::string_view kData = "data:";
  for (;;) {
    const size_t end = waiting_.find('\n', at_);
    if (end == std::string::npos) {
      waiting_.erase(0, at_);
      at_ = 0;
      return std::nullopt;
    }
    std::string_view line(waiting_.data() + at_, end - at_);
    at_ = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) {
      if (!has_data_) continue;
      has_data_ = false;
      return std::exchange(data_, {});
    }
    if (!line.starts_with(kData)) continue;
    line.remove_prefix(kData.size());
    if (line.starts_with(' ')) line.remove_prefix(1);
    if (has_data_) data_ += '\n';
    data_ += line;
    has_data_ = true;
  }
}

ChatEvent ReadChatEvent(std::string_view data) {
  ChatEvent event;
  if (data == "[DONE]") {
    event.done = true;
    return event;
  }
  const auto document = JsonDocument::Parse(data);
  const auto object = document.ok() ? document->Object() : document.status();
  if (!object.ok() || object->Has("error")) {
    event.error = true;
    return event;
  }
  const auto usage = object->GetObjectOrEmpty("usage");
  if (usage.ok()) ReadUsage(*usage, &event);
  const auto choices = object->Find("choices");
  JsonArray array;
  if (!choices || !choices->Get(&array)) return event;
  for (const auto element : array) {
    JsonObject choice;
    if (element.Get(&choice)) ReadChoice(choice, &event);
  }
  return event;
}

}  // namespace penstock::load
