#include "frontend/wire_names.h"

#include <string>

namespace penstock::frontend {
namespace {

bool IsNameChar(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         c == '.';
}

// Replaces `from` where it stands as a field: in quotes, indexed, or as the subject of the
// sentence.
std::string Rename(const std::string& text, std::string_view from, std::string_view to) {
  std::string renamed;
  size_t done = 0;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + 1)) {
    const char before = at == 0 ? ' ' : text[at - 1];
    const size_t end = at + from.size();
    const std::string_view after = std::string_view(text).substr(end);
    const bool field = !IsNameChar(before) &&
                       (after.starts_with('[') || (before == '\'' && after.starts_with('\'')) ||
                        after.starts_with(" is ") || after.starts_with(" has ") ||
                        (from.ends_with(']') && after.starts_with(": ")));
    if (!field || at < done) continue;
    renamed.append(text, done, at - done);
    renamed += to;
    done = end;
  }
  return renamed.append(text, done, std::string::npos);
}

}  // namespace

Status WithWireNames(const Status& status, const FieldNames& native_to_wire) {
  std::string message = status.message();
  std::string field = status.field();
  for (const auto& [from, to] : native_to_wire) {
    message = Rename(message, from, to);
    const bool is_field = field == from || (field.starts_with(from) && field[from.size()] == '[');
    if (is_field) field = std::string(to) + field.substr(from.size());
  }
  return Status(status.code(), std::move(message), std::move(field))
      .WithRetryAfter(status.retry_after_s());
}

}  // namespace penstock::frontend
