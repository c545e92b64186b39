#include "base/duration.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace penstock {
namespace {

constexpr double kSecondsMax = 10.0 * 365 * 86400;

Status Refused(std::string_view text) {
  return Status::InvalidArgument(fmt::format(
      "'{}' is not a duration; 300 and 5m are 5 minutes, 1h30m and 250ms are fine, and a "
      "negative one is for ever; at most 3650d",
      text.substr(0, 64)));
}

// The unit `name` in seconds; 0 if the name is unknown.
double UnitOf(std::string_view name) {
  if (name.empty() || name == "s") return 1;
  if (name == "ms") return 1e-3;
  if (name == "m" || name == "min") return 60;
  if (name == "h") return 3600;
  return name == "d" ? 86400 : 0;
}

}  // namespace

Expected<std::chrono::milliseconds> ParseDuration(std::string_view text) {
  const bool negative = text.starts_with('-');
  std::string_view rest = text.substr(negative ? 1 : 0);
  double seconds = 0;
  if (rest.empty()) return Refused(text);
  while (!rest.empty()) {
    double number = 0;
    const auto [end, error] =
        std::from_chars(rest.data(), rest.data() + rest.size(), number, std::chars_format::fixed);
    if (error != std::errc() || !std::isfinite(number) || number < 0) return Refused(text);
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
    const size_t length = std::min(rest.find_first_of("0123456789."), rest.size());
    const double unit = UnitOf(rest.substr(0, length));
    // Without a unit only as a whole.
    if (unit == 0 || (length == 0 && seconds > 0)) return Refused(text);
    rest.remove_prefix(length);
    seconds += number * unit;
  }
  if (seconds > kSecondsMax) return Refused(text);
  if (negative && seconds > 0) return std::chrono::milliseconds(-1);
  return std::chrono::milliseconds(std::llround(seconds * 1000));
}

std::string DurationText(std::chrono::milliseconds duration) {
  if (duration.count() < 0) return "for ever";
  const int64_t ms = duration.count();
  if (ms % 1000 != 0) return fmt::format("{}s", static_cast<double>(ms) / 1000);
  const int64_t seconds = ms / 1000;
  std::string text;
  if (seconds >= 3600) text += fmt::format("{}h", seconds / 3600);
  if (seconds / 60 % 60 > 0) text += fmt::format("{}m", seconds / 60 % 60);
  if (seconds % 60 > 0 || text.empty()) text += fmt::format("{}s", seconds % 60);
  return text;
}

}  // namespace penstock
