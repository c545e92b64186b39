#include "cli/flag_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "base/split_list.h"

namespace penstock::cli {
namespace {

struct Suffix {
  const char* name;  // lower case
  long double factor;
};

constexpr std::array kSizes = {
    Suffix{"b", 1},         Suffix{"kb", 1e3L},     Suffix{"mb", 1e6L},
    Suffix{"gb", 1e9L},     Suffix{"tb", 1e12L},    Suffix{"kib", 1LL << 10},
    Suffix{"mib", 1 << 20}, Suffix{"gib", 1 << 30}, Suffix{"tib", 1LL << 40},
};
// In microseconds.
constexpr std::array kTimes = {
    Suffix{"us", 1},    Suffix{"ms", 1e3L},   Suffix{"s", 1e6L},     Suffix{"min", 60e6L},
    Suffix{"m", 60e6L}, Suffix{"h", 3600e6L}, Suffix{"d", 86400e6L},
};

std::string Lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// How many of the table's unit one of that unit is.
long double FactorOf(Unit unit) {
  if (unit == Unit::kMilliseconds) return 1e3L;
  return unit == Unit::kSeconds ? 1e6L : 1;
}

template <size_t kCount>
std::optional<long double> Find(const std::array<Suffix, kCount>& suffixes,
                                const std::string& name) {
  for (const Suffix& suffix : suffixes) {
    if (name == suffix.name) return suffix.factor;
  }
  return std::nullopt;
}

// Insertions, deletions, changes and swaps of neighbours that make one of the other.
size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

std::string Comparable(const std::string& name) {
  std::string text = Lower(name);
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

}  // namespace

Unit UnitOf(const std::string& type_name) {
  if (type_name == "BYTES") return Unit::kBytes;
  if (type_name == "US") return Unit::kMicroseconds;
  if (type_name == "MS") return Unit::kMilliseconds;
  return type_name == "S" ? Unit::kSeconds : Unit::kNone;
}

std::string SuffixesOf(Unit unit) {
  switch (unit) {
    case Unit::kNone:
      return "";
    case Unit::kBytes:
      return "a number of bytes, or one with B, kB, MB, GB, TB, KiB, MiB, GiB or TiB";
    case Unit::kMicroseconds:
      return "a number of microseconds, or one with us, ms, s, min, h or d";
    case Unit::kMilliseconds:
      return "a number of milliseconds, or one with us, ms, s, min, h or d";
    case Unit::kSeconds:
      return "a number of seconds, or one with us, ms, s, min, h or d";
  }
  return "";
}

Expected<std::string> InUnit(const std::string& text, Unit unit) {
  const size_t end = text.find_first_not_of("0123456789.");
  if (unit == Unit::kNone || end == 0 || end == std::string::npos) return text;
  char* rest = nullptr;
  std::strtod(text.c_str(), &rest);
  if (*rest == '\0') return text;  // 1e6
  const std::string number = text.substr(0, end);
  const std::string name = Lower(penstock::Trimmed(text.substr(end)));
  const long double value = std::strtold(number.c_str(), &rest);
  const auto factor = unit == Unit::kBytes ? Find(kSizes, name) : Find(kTimes, name);
  if (*rest != '\0' || !factor) {
    return Status::InvalidArgument(fmt::format("'{}' is not {}", text, SuffixesOf(unit)));
  }
  const long double scaled = value * *factor / FactorOf(unit);
  const long double whole = std::round(scaled);
  // Of 0.1 s a little more than 100 ms may come out.
  if (whole < 9e18L && std::abs(scaled - whole) <= 1e-12L * whole) {
    return fmt::format("{}", static_cast<int64_t>(whole));
  }
  return fmt::format("{}", static_cast<double>(scaled));
}

std::optional<bool> ParseBoolean(const std::string& text) {
  const std::string word = Lower(penstock::Trimmed(text));
  for (const char* yes : {"true", "yes", "on", "1"}) {
    if (word == yes) return true;
  }
  for (const char* no : {"false", "no", "off", "0"}) {
    if (word == no) return false;
  }
  return std::nullopt;
}

bool IsBlank(const std::string& text) { return penstock::Trimmed(text).empty(); }

std::string Nearest(const std::string& given, const std::vector<std::string>& known) {
  const std::string wanted = Comparable(given);
  std::string best;
  // A third of it may be wrong, but a word of two letters is near to too many.
  size_t least = wanted.size() / 3 + 1;
  if (wanted.size() < 3) least = 1;
  for (const std::string& name : known) {
    const std::string other = Comparable(name);
    size_t distance = EditDistance(wanted, other);
    // A correct beginning counts as near: --max-batch-tok.
    if (wanted.size() >= 4 && other.starts_with(wanted)) distance = std::min<size_t>(distance, 1);
    if (distance < least) {
      least = distance;
      best = name;
    }
  }
  return best;
}

std::string DidYouMean(const std::string& given, const std::vector<std::string>& known,
                       const std::string& prefix) {
  const std::string nearest = Nearest(given, known);
  return nearest.empty() ? "" : fmt::format("; did you mean {}{}?", prefix, nearest);
}

}  // namespace penstock::cli
