#include "dialects/shared/query.h"

#include <algorithm>
#include <charconv>

#include "http/message.h"

namespace penstock::dialects {

std::string QueryValue(std::string_view target, std::string_view key) {
  const size_t query = target.find('?');
  if (query == std::string_view::npos) return "";
  std::string_view rest = target.substr(query + 1);
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find('&'));
    std::string value;
    if (item.size() > key.size() && item.starts_with(key) && item[key.size()] == '=' &&
        http::PercentDecode(item.substr(key.size() + 1), &value)) {
      return value;
    }
    rest.remove_prefix(std::min(rest.size(), item.size() + 1));
  }
  return "";
}

Expected<int64_t> QueryInt(std::string_view target, std::string_view key, int64_t absent,
                           int64_t min, int64_t max) {
  const std::string text = QueryValue(target, key);
  if (text.empty()) return absent;
  int64_t number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error == std::errc() && end == last && number >= min && number <= max) return number;
  return Status::InvalidArgument("'" + std::string(key) + "' must be a number from " +
                                     std::to_string(min) + " to " + std::to_string(max),
                                 std::string(key));
}

}  // namespace penstock::dialects
