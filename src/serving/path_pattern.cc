#include "serving/path_pattern.h"

#include <algorithm>

#include "base/status.h"

namespace penstock::serving {
namespace {

constexpr auto kNone = std::string_view::npos;

}  // namespace

std::optional<PathParts> MatchPath(std::string_view pattern, std::string_view path) {
  const size_t first = pattern.find('{');
  if (first == kNone) return pattern == path ? std::optional(PathParts{}) : std::nullopt;
  if (!path.starts_with(pattern.substr(0, first))) return std::nullopt;
  path.remove_prefix(first);
  std::string_view rest = pattern.substr(pattern.find('}') + 1);
  const auto parts = static_cast<size_t>(std::count(pattern.begin(), pattern.end(), '{'));
  PathParts values;
  // From the end, so that the first part gets all that is left.
  for (size_t i = parts - 1; i > 0; --i) {
    const std::string_view behind = rest.substr(rest.rfind('}') + 1);
    rest = rest.substr(0, rest.rfind('{'));
    if (!path.ends_with(behind)) return std::nullopt;
    path.remove_suffix(behind.size());
    values[i] = path.substr(path.rfind('/') + 1);
    if (values[i].empty()) return std::nullopt;
    path.remove_suffix(values[i].size());
  }
  if (!path.ends_with(rest)) return std::nullopt;
  path.remove_suffix(rest.size());
  if (path.empty()) return std::nullopt;
  values[0] = path;
  return values;
}

std::vector<std::string_view> PathPartNames(std::string_view pattern) {
  std::vector<std::string_view> names;
  for (size_t open = pattern.find('{'); open != kNone; open = pattern.find('{', open + 1)) {
    names.push_back(pattern.substr(open + 1, pattern.find('}', open) - open - 1));
  }
  PENSTOCK_CHECK(names.size() <= PathParts().size());
  return names;
}

size_t LiteralLength(std::string_view pattern) {
  size_t length = pattern.size();
  for (const std::string_view name : PathPartNames(pattern)) length -= name.size() + 2;
  return length;
}

}  // namespace penstock::serving
