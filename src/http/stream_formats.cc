#include "http/stream_formats.h"

#include <algorithm>
#include <charconv>

namespace penstock {
namespace {

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// Takes the part before the next `separator` off `rest`.
std::string_view Next(std::string_view* rest, char separator) {
  const std::string_view part = rest->substr(0, rest->find(separator));
  rest->remove_prefix(std::min(rest->size(), part.size() + 1));
  return Trimmed(part);
}

bool SameType(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return (x >= 'A' && x <= 'Z' ? static_cast<char>(x + 32) : x) == y;
  });
}

// The weight of one entry of Accept: 1 unless it has a q.
double Weight(std::string_view parameters) {
  while (!parameters.empty()) {
    const std::string_view parameter = Next(&parameters, ';');
    if (!parameter.starts_with("q=") && !parameter.starts_with("Q=")) continue;
    double weight = 0;
    const std::string_view number = parameter.substr(2);
    std::from_chars(number.data(), number.data() + number.size(), weight);
    return weight;
  }
  return 1;
}

}  // namespace

bool WantsNdjson(std::string_view accept) {
  double lines = 0;
  double json = 0;
  while (!accept.empty()) {
    std::string_view entry = Next(&accept, ',');
    const std::string_view type = Next(&entry, ';');
    if (SameType(type, kNdjsonType)) lines = std::max(lines, Weight(entry));
    if (SameType(type, "application/json")) json = std::max(json, Weight(entry));
  }
  return lines > 0 && lines >= json;
}

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

}  // namespace penstock
