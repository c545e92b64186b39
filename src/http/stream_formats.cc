#include "http/stream_formats.h"

namespace penstock::http {
void AppendEvent(std::string_view event, std::string_view data, std::string* out) {
  if (!event.empty()) {
    *out += "event: ";
    for (const char c : event) {
      if (c != '\r' && c != '\n') *out += c;
    }
    *out += '\n';
  }
  for (;;) {
    const size_t end = data.find_first_of("\r\n");
    out->append("data: ").append(data.substr(0, end)).append("\n");
    if (end == std::string_view::npos) break;
    data.remove_prefix(data.substr(end).starts_with("\r\n") ? end + 2 : end + 1);
  }
  *out += '\n';
}

void AppendEventComment(std::string_view comment, std::string* out) {
  out->append(": ").append(comment).append("\n\n");
}

}  // namespace penstock::http
