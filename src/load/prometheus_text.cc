#include "load/prometheus_text.h"

#include <algorithm>
#include <charconv>

namespace penstock::load {

double SumOfSeries(std::string_view text, std::string_view name,
                   std::initializer_list<std::string_view> labels) {
  double sum = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.starts_with(name)) continue;
    const std::string_view rest = line.substr(name.size());
    if (rest.empty() || (rest[0] != '{' && rest[0] != ' ')) continue;
    const bool wanted = std::all_of(labels.begin(), labels.end(), [rest](std::string_view label) {
      return rest.find(label) != std::string_view::npos;
    });
    const size_t space = rest.rfind(' ');
    if (!wanted || space == std::string_view::npos) continue;
    double value = 0;
    std::from_chars(rest.data() + space + 1, rest.data() + rest.size(), value);
    sum += value;
  }
  return sum;
}

}  // namespace penstock::load
