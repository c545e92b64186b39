// Formats of streamed bodies: lines of JSON (NDJSON) and server-sent events. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace penstock::http {

inline constexpr const char* kNdjsonType = "application/x-ndjson";
inline constexpr const char* kEventStreamType = "text/event-stream";

// One event of text/event-stream (WHATWG HTML, 9.2): each line of `data` in a field of its own, and
// `event` as its type where it is not empty. Line breaks in `event` are left out.
void AppendEvent(std::string_view event, std::string_view data, std::string* out);
// A comment: keeps a silent stream's connection alive, and clients skip it. No line breaks.
void AppendEventComment(std::string_view comment, std::string* out);

}  // namespace penstock::http
