#include "jobs/multipart.h"

#include <algorithm>
#include <optional>

namespace penstock::jobs {
namespace {

constexpr size_t kBoundaryBytesMax = 70;  // RFC 2046 5.1.1

Status Bad(const std::string& why) {
  return Status::InvalidArgument("the form (multipart/form-data) " + why);
}

bool StartsWithIgnoringCase(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() &&
         std::equal(prefix.begin(), prefix.end(), text.begin(), [](char a, char b) {
           return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b + 32) : b);
         });
}

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// The value of ;key=value or ;key="value" behind a header's first word.
std::optional<std::string> Parameter(std::string_view header, std::string_view key) {
  size_t at = header.find(';');
  while (at != std::string_view::npos) {
    std::string_view rest = header.substr(at + 1);
    rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of(" \t")));
    const size_t equals = rest.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view name = Trimmed(rest.substr(0, equals));
    std::string_view value = rest.substr(equals + 1);
    std::string text;
    size_t used = 0;
    if (value.starts_with('"')) {
      for (used = 1; used < value.size() && value[used] != '"'; ++used) {
        if (value[used] == '\\' && used + 1 < value.size()) ++used;
        text += value[used];
      }
      if (used == value.size()) return std::nullopt;
      ++used;
    } else {
      used = std::min(value.size(), value.find(';'));
      text = Trimmed(value.substr(0, used));
    }
    if (name.size() == key.size() && StartsWithIgnoringCase(name, key)) return text;
    const size_t next = value.substr(used).find(';');
    if (next == std::string_view::npos) return std::nullopt;
    at = static_cast<size_t>(value.data() - header.data()) + used + next;
  }
  return std::nullopt;
}

// Name and file name from the lines of a part's header.
Status ReadHeader(std::string_view header, FormPart* part) {
  while (!header.empty()) {
    const size_t end = std::min(header.size(), header.find("\r\n"));
    const std::string_view line = header.substr(0, end);
    header.remove_prefix(std::min(header.size(), end + 2));
    constexpr std::string_view kDisposition = "content-disposition:";
    if (!StartsWithIgnoringCase(line, kDisposition)) continue;
    // A CR, a backslash and an LF would be unescaped to a file name of two lines.
    if (line.find_first_of(std::string_view("\r\n\0", 3)) != std::string_view::npos) {
      return Bad("has a part with a CR, LF or NUL in its Content-Disposition");
    }
    const std::string_view value = Trimmed(line.substr(kDisposition.size()));
    if (!StartsWithIgnoringCase(value, "form-data")) return Bad("has a part that is not form-data");
    const auto name = Parameter(value, "name");
    if (!name) return Bad("has a part without a name");
    part->name = *name;
    part->filename = Parameter(value, "filename").value_or("");
    return Status::Ok();
  }
  return Bad("has a part without Content-Disposition");
}

}  // namespace

Expected<std::vector<FormPart>> ParseForm(std::string_view content_type, std::string_view body) {
  if (!StartsWithIgnoringCase(Trimmed(content_type), "multipart/form-data")) {
    return Status::InvalidArgument("the body must be a form: Content-Type multipart/form-data");
  }
  const auto boundary = Parameter(content_type, "boundary");
  if (!boundary || boundary->empty() || boundary->size() > kBoundaryBytesMax) {
    return Bad("has no boundary of 1 to " + std::to_string(kBoundaryBytesMax) + " bytes");
  }
  const std::string first = "--" + *boundary;
  const std::string next = "\r\n" + first;
  size_t at = first.size();
  if (!body.starts_with(first)) {  // what is before the first boundary is passed over
    const size_t begin = body.find(next);
    if (begin == std::string_view::npos) return Bad("does not begin with its boundary");
    at = begin + next.size();
  }
  std::vector<FormPart> parts;
  while (!body.substr(at).starts_with("--")) {
    if (!body.substr(at).starts_with("\r\n")) return Bad("has a boundary without a line break");
    at += 2;
    if (parts.size() == kFormPartsMax) {
      return Bad("has more than " + std::to_string(kFormPartsMax) + " parts, the limit");
    }
    const size_t header_end = body.find("\r\n\r\n", at);
    if (header_end == std::string_view::npos || header_end - at > kFormHeaderBytesMax) {
      return Bad("has a part whose header does not end within " +
                 std::to_string(kFormHeaderBytesMax) + " bytes");
    }
    FormPart part;
    PENSTOCK_RETURN_IF_ERROR(ReadHeader(body.substr(at, header_end - at), &part));
    const size_t begin = header_end + 4;
    const size_t end = body.find(next, begin);
    if (end == std::string_view::npos) return Bad("does not end with its boundary");
    part.content = body.substr(begin, end - begin);
    parts.push_back(std::move(part));
    at = end + next.size();
  }
  return parts;
}

}  // namespace penstock::jobs
