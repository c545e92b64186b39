#include "grammar/regex_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "grammar/grammar_spec.h"
#include "grammar/pattern_size.h"

namespace penstock::grammar {
namespace {

struct Range {
  uint32_t first = 0;
  uint32_t last = 0;
};
using Ranges = std::vector<Range>;

constexpr uint32_t kMost = 0x10FFFF;
constexpr Range kSurrogates = {0xD800, 0xDFFF};

// Sorted, without overlaps.
Ranges Sorted(Ranges ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.first < b.first; });
  Ranges out;
  for (const Range& range : ranges) {
    if (!out.empty() && range.first <= out.back().last + 1) {
      out.back().last = std::max(out.back().last, range.last);
    } else {
      out.push_back(range);
    }
  }
  return out;
}

Ranges Opposite(const Ranges& ranges) {
  Ranges out;
  uint32_t next = 1;
  for (const Range& range : Sorted(ranges)) {
    if (range.first > next) out.push_back({next, range.first - 1});
    next = std::max(next, range.last + 1);
  }
  if (next <= kMost) out.push_back({next, kMost});
  return out;
}

Ranges Without(const Ranges& ranges, const Ranges& taken) {
  Ranges all = Opposite(ranges);
  all.insert(all.end(), taken.begin(), taken.end());
  return Opposite(all);
}

bool Has(const Ranges& ranges, uint32_t point) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const Range& range) {
    return range.first <= point && point <= range.last;
  });
}

std::string ClassOf(const Ranges& ranges) {
  std::string out = "[";
  for (const Range& range : ranges) {
    out += fmt::format("\\U{:08X}", range.first);
    if (range.last > range.first) out += fmt::format("-\\U{:08X}", range.last);
  }
  return out + "]";
}

struct Escape {
  uint32_t point;
  const char* written;  // in EBNF, between its quotes
};
// How JSON writes what it does not take as it is.
constexpr Escape kJsonEscapes[] = {{'"', R"(\\\")"}, {'\\', R"(\\\\)"}, {'\b', R"(\\b)"},
                                   {'\f', R"(\\f)"}, {'\n', R"(\\n)"},  {'\r', R"(\\r)"},
                                   {'\t', R"(\\t)"}};

class Converter {
 public:
  Converter(std::string_view pattern, RegexText text) : pattern_(pattern), text_(text) {}

  Expected<std::string> Run() {
    PENSTOCK_RETURN_IF_ERROR(CheckPatternSize(pattern_, PatternKind::kRegex));
    PENSTOCK_ASSIGN_OR_RETURN(std::string out, Alternatives(true, 0));
    if (at_ < pattern_.size()) return Status::InvalidArgument("has a ')' without its '('");
    return out;
  }

 private:
  static Status Wrong(const std::string& what) { return Status::InvalidArgument(what); }
  bool Ends() const { return at_ >= pattern_.size(); }
  char Peek() const { return pattern_[at_]; }
  bool Take(std::string_view text) {
    if (!pattern_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }

  // `outer`: nothing of the pattern stands before or behind.
  Expected<std::string> Alternatives(bool outer, size_t depth) {
    if (depth > kPatternDepthMax) return Wrong("has groups nested too deep");
    std::string out = "(";
    while (true) {
      PENSTOCK_ASSIGN_OR_RETURN(const std::string one, Sequence(outer, depth));
      out += one;
      if (!Take("|")) break;
      out += " | ";
    }
    return out + ")";
  }

  Expected<std::string> Sequence(bool outer, size_t depth) {
    std::string out;
    bool first = true;
    for (; !Ends() && Peek() != '|' && Peek() != ')'; first = false) {
      if (Take("^")) {
        if (!outer || !first) return Wrong("has '^' in its midst");
        continue;
      }
      if (Take("$")) {
        if (!outer || (!Ends() && Peek() != '|')) return Wrong("has '$' in its midst");
        continue;
      }
      // A group alone in its alternative may have the anchors inside.
      PENSTOCK_ASSIGN_OR_RETURN(std::string atom, Atom(depth));
      PENSTOCK_RETURN_IF_ERROR(Repeat(&atom));
      out += (out.empty() ? "" : " ") + atom;
    }
    return out.empty() ? std::string("\"\"") : out;
  }

  Status Repeat(std::string* atom) {
    if (Ends()) return Status::Ok();
    const char c = Peek();
    if (c == '*' || c == '+' || c == '?') {
      ++at_;
      *atom += c;
    } else if (c == '{') {
      const size_t end = pattern_.find('}', at_);
      const std::string_view inside = end == std::string_view::npos
                                          ? std::string_view()
                                          : pattern_.substr(at_ + 1, end - at_ - 1);
      const bool counts = !inside.empty() && inside.front() != ',' &&
                          inside.find_first_not_of("0123456789,") == std::string_view::npos &&
                          std::count(inside.begin(), inside.end(), ',') <= 1;
      if (!counts) return Wrong("has a '{' without a repetition");
      at_ = end + 1;
      *atom += "{" + std::string(inside) + "}";
    } else {
      return Status::Ok();
    }
    if (!Ends() && Peek() == '?') ++at_;  // lazy: the same texts
    if (!Ends() && (Peek() == '*' || Peek() == '+'))
      return Wrong("has a repetition of a repetition");
    return Status::Ok();
  }

  Expected<std::string> Atom(size_t depth) {
    if (Take("(")) {
      if (Take("?")) {
        if (Take("<")) {
          if (!Ends() && (Peek() == '=' || Peek() == '!')) return Wrong("looks behind");
          at_ = std::min(pattern_.find('>', at_), pattern_.size() - 1) + 1;
        } else if (!Take(":")) {
          return Wrong("looks ahead, or has flags of a group");
        }
      }
      PENSTOCK_ASSIGN_OR_RETURN(std::string inside, Alternatives(false, depth + 1));
      if (!Take(")")) return Wrong("has a '(' without its ')'");
      return inside;
    }
    if (Take("[")) {
      PENSTOCK_ASSIGN_OR_RETURN(const Ranges ranges, Class());
      return One(ranges);
    }
    if (Take(".")) return One(Opposite({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}));
    const char c = Peek();
    if (c == '*' || c == '+' || c == '?') return Wrong("repeats nothing");
    if (Take("\\")) {
      PENSTOCK_ASSIGN_OR_RETURN(const Ranges ranges, Escaped(false));
      return One(ranges);
    }
    PENSTOCK_ASSIGN_OR_RETURN(const uint32_t point, Point());
    return One({{point, point}});
  }

  // The next character.
  Expected<uint32_t> Point() {
    const auto byte = static_cast<unsigned char>(pattern_[at_]);
    const size_t size = byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
    if (at_ + size > pattern_.size()) return Wrong("is not UTF-8");
    uint32_t point = size == 1 ? byte : byte & (0xFFu >> (size + 1));
    for (size_t i = 1; i < size; ++i) {
      point = point << 6 | (static_cast<unsigned char>(pattern_[at_ + i]) & 0x3Fu);
    }
    at_ += size;
    return point;
  }

  Expected<Ranges> Class() {
    const bool negated = Take("^");
    Ranges ranges;
    while (true) {
      if (Ends()) return Wrong("has a '[' without its ']'");
      if (Take("]")) break;
      PENSTOCK_ASSIGN_OR_RETURN(const Ranges first, Member());
      const bool one = first.size() == 1 && first[0].first == first[0].last;
      if (one && at_ + 1 < pattern_.size() && Peek() == '-' && pattern_[at_ + 1] != ']') {
        ++at_;
        PENSTOCK_ASSIGN_OR_RETURN(const Ranges last, Member());
        if (last.size() != 1 || last[0].first != last[0].last || last[0].first < first[0].first) {
          return Wrong("has a range that goes down");
        }
        ranges.push_back({first[0].first, last[0].last});
      } else {
        ranges.insert(ranges.end(), first.begin(), first.end());
      }
    }
    return negated ? Opposite(ranges) : Sorted(ranges);
  }

  Expected<Ranges> Member() {
    if (Take("\\")) return Escaped(true);
    PENSTOCK_ASSIGN_OR_RETURN(const uint32_t point, Point());
    return Ranges{{point, point}};
  }

  Expected<uint32_t> Hex(size_t digits) {
    if (at_ + digits > pattern_.size()) return Wrong("has an escape that is cut");
    uint32_t value = 0;
    for (size_t i = 0; i < digits; ++i) {
      const char c = pattern_[at_++];
      const bool letter = (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
      if (!letter && (c < '0' || c > '9')) return Wrong("has an escape whose number is broken");
      value = value * 16 + static_cast<uint32_t>(letter ? (c | 0x20) - 'a' + 10 : c - '0');
    }
    return value;
  }

  // What stands behind a backslash.
  Expected<Ranges> Escaped(bool in_class) {
    if (Ends()) return Wrong("ends with a backslash");
    const char c = pattern_[at_++];
    const Ranges digits = {{'0', '9'}};
    const Ranges word = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    const Ranges space = {{'\t', '\r'}, {' ', ' '}};
    const auto one = [](uint32_t point) { return Ranges{{point, point}}; };
    switch (c) {
      case 'd':
        return digits;
      case 'D':
        return Opposite(digits);
      case 'w':
        return word;
      case 'W':
        return Opposite(word);
      case 's':
        return space;
      case 'S':
        return Opposite({{'\t', '\r'},
                         {' ', ' '},
                         {0xA0, 0xA0},
                         {0x1680, 0x1680},
                         {0x2000, 0x200A},
                         {0x2028, 0x2029},
                         {0x202F, 0x202F},
                         {0x205F, 0x205F},
                         {0x3000, 0x3000},
                         {0xFEFF, 0xFEFF}});
      case 'n':
        return one('\n');
      case 'r':
        return one('\r');
      case 't':
        return one('\t');
      case 'f':
        return one('\f');
      case 'v':
        return one('\v');
      case 'b':
        if (in_class) return one('\b');
        return Wrong("has the border of a word, \\b");
      case 'x': {
        PENSTOCK_ASSIGN_OR_RETURN(const uint32_t point, Hex(2));
        return one(point);
      }
      case 'u': {
        PENSTOCK_ASSIGN_OR_RETURN(const uint32_t point, Hex(4));
        if (point >= kSurrogates.first && point <= kSurrogates.last)
          return Wrong("has half a pair");
        return one(point);
      }
      default:
        break;
    }
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      return Wrong(fmt::format("has \\{}, which is not supported", c));
    }
    --at_;
    PENSTOCK_ASSIGN_OR_RETURN(const uint32_t point, Point());
    return one(point);
  }

  // One character of `ranges`.
  Expected<std::string> One(const Ranges& ranges) const {
    Ranges plain = Without(ranges, {kSurrogates});
    if (InTag(text_)) plain = Without(plain, {{'<', '<'}});
    if (!InJson(text_)) {
      if (plain.empty()) return Wrong("has a class without a character");
      return ClassOf(plain);
    }
    std::string out;
    for (const Escape& escape : kJsonEscapes) {
      if (Has(plain, escape.point)) out += fmt::format("\"{}\" | ", escape.written);
    }
    plain = Without(plain, {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}});
    if (out.empty() && plain.empty()) return Wrong("has a class without a character");
    if (!plain.empty()) out += ClassOf(plain);
    if (plain.empty()) out.resize(out.size() - 3);
    return "(" + out + ")";
  }

  const std::string_view pattern_;
  const RegexText text_;
  size_t at_ = 0;
};

}  // namespace

Expected<std::string> RegexRules(std::string_view pattern, RegexText text) {
  return Converter(pattern, text).Run();
}

}  // namespace penstock::grammar
