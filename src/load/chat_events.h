// Reads the events of a streamed text: server-sent events as bytes come, and what OpenAI's chunks
// say. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::load {

// Cuts an event stream into the data of its events. Comments and fields but `data` are left out.
class EventReader {
 public:
  void Add(std::string_view bytes) { waiting_.append(bytes); }
  // The next event that is whole, its lines joined with line breaks.
  std::optional<std::string> Next();
  // Before another answer.
  void Reset() { *this = {}; }

 private:
  std::string waiting_;
  size_t at_ = 0;     // in waiting_, of the next line
  std::string data_;  // of the event so far
  bool has_data_ = false;
};

// What a chunk of /v1/chat/completions or /v1/completions says.
struct ChatEvent {
  bool done = false;   // [DONE]
  bool error = false;  // {"error": ...}, or not JSON
  bool text = false;   // some text, reasoning or tool call came
  bool finish = false;
  // From the usage; -1: not given.
  int64_t prompt_tokens = -1;
  int64_t completion_tokens = -1;
  int64_t cached_tokens = -1;
};
ChatEvent ReadChatEvent(std::string_view data);

}  // namespace penstock::load
