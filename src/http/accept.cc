#include "http/accept.h"

#include <algorithm>
#include <charconv>

#include "http/stream_formats.h"

namespace penstock::http {
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

// The weight of `name` in a header of that form; 0: it is not named.
double WeightOf(std::string_view header, std::string_view name) {
  double weight = 0;
  while (!header.empty()) {
    std::string_view entry = Next(&header, ',');
    if (SameType(Next(&entry, ';'), name)) weight = std::max(weight, Weight(entry));
  }
  return weight;
}

}  // namespace

bool WantsNdjson(std::string_view accept) {
  const double lines = WeightOf(accept, kNdjsonType);
  return lines > 0 && lines >= WeightOf(accept, "application/json");
}

bool WantsHtml(std::string_view accept) {
  const double html = WeightOf(accept, "text/html");
  return html > 0 && html >= WeightOf(accept, "application/json");
}

bool AcceptsGzip(std::string_view accept_encoding) { return WeightOf(accept_encoding, "gzip") > 0; }

}  // namespace penstock::http
