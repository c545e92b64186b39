#include "grammar/pattern_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "grammar/grammar_spec.h"

namespace penstock::grammar {
namespace {

// "{2}", "{2,}", "{2,5}" at the begin of `text`; the larger number. 0: another text.
struct Repeat {
  size_t most = 0;
  size_t bytes = 0;
};
Repeat ReadRepeat(std::string_view text) {
  Repeat repeat;
  size_t number = 0;
  bool digits = false;
  for (size_t i = 1; i < text.size(); ++i) {
    const char c = text[i];
    if (c >= '0' && c <= '9') {
      number = std::min<size_t>(number * 10 + static_cast<size_t>(c - '0'), 1 << 30);
      digits = true;
    } else if (c == ',' || c == ' ') {
      repeat.most = std::max(repeat.most, number);
      number = 0;
    } else if (c == '}' && digits) {
      repeat.most = std::max(repeat.most, number);
      repeat.bytes = i + 1;
      return repeat;
    } else {
      break;
    }
  }
  return {};
}

}  // namespace

Status CheckPatternSize(std::string_view pattern, PatternKind kind) {
  // Each open group: its characters so far, and those of its last part, which a repetition is of.
  struct Level {
    size_t size = 0;
    size_t last = 0;
  };
  std::vector<Level> levels(1);
  bool in_class = false;
  bool quoted = false;
  const auto add = [&](size_t size) {
    Level& level = levels.back();
    level.last = std::min(size, kPatternSizeMax + 1);
    level.size = std::min(level.size + level.last, kPatternSizeMax + 1);
  };
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\') {
      ++i;
      if (!in_class) add(1);
    } else if (in_class) {
      if (c == ']') in_class = false;
    } else if (quoted) {
      quoted = c != '"';
      levels.back().last += 1;
      levels.back().size = std::min(levels.back().size + 1, kPatternSizeMax + 1);
    } else if (c == '"' && kind == PatternKind::kRules) {
      quoted = true;
      add(1);
    } else if (c == '[') {
      in_class = true;
      add(1);
    } else if (c == '(') {
      if (levels.size() > kPatternDepthMax) {
        return Status::InvalidArgument(
            fmt::format("has groups nested deeper than {}", kPatternDepthMax));
      }
      levels.emplace_back();
    } else if (c == ')' && levels.size() > 1) {
      const size_t size = levels.back().size;
      levels.pop_back();
      add(std::max<size_t>(size, 1));
    } else if (const Repeat repeat = c == '{' ? ReadRepeat(pattern.substr(i)) : Repeat();
               repeat.bytes > 0) {
      if (repeat.most > kRepeatsMax) {
        return Status::InvalidArgument(
            fmt::format("has a repetition of more than {} times", kRepeatsMax));
      }
      const size_t last = levels.back().last;
      levels.back().size -= std::min(last, levels.back().size);
      add(last * std::max<size_t>(repeat.most, 1));
      i += repeat.bytes - 1;
    } else {
      add(1);
    }
    if (levels.back().size > kPatternSizeMax) {
      return Status::InvalidArgument(fmt::format(
          "is more than {} characters with its repetitions written out", kPatternSizeMax));
    }
  }
  return Status::Ok();
}

}  // namespace penstock::grammar
