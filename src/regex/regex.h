// A small regular expression engine for the patterns that tokenizer files carry.
//
// Oniguruma's Ruby syntax as far as such patterns use it: alternation, groups, (?i:), look-ahead
// and look-behind of one character class, greedy, lazy and possessive quantifiers, classes with
// \p{..}, nesting and &&, ^ and $ at lines, \b. Anything else is refused by name. Leftmost match,
// first alternative wins, by backtracking; loops over one class take no stack. Without captures,
// the rest of a match depends only on the point of the program and the place in the text, so
// failures are remembered (after Davis et al., "Using Selective Memoization to Defeat Regular
// Expression Denial of Service", 2021). A search that still takes too many steps fails instead of
// hanging, as does one that would keep too many places to backtrack to.
//
// Patterns come from strangers. Limits of a pattern: 64 KiB; groups and classes 100 deep, the tree
// of a pattern 500 high; 20,000 instructions once counted loops are unrolled, for which a tree is
// walked at most a million nodes; 4,096 classes, each of 32 parts at most that cannot be merged.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "threads/work.h"

namespace penstock::regex {

struct ByteRange {
  size_t begin, end;
};

// A set of code points.
class CharClass {
 public:
  void AddRange(char32_t first, char32_t last) { ranges_.push_back({first, last}); }
  void AddCategories(uint32_t mask, bool negated);
  void AddProperty(uint32_t bits, bool negated);
  void AddClass(CharClass nested) { nested_.push_back(std::move(nested)); }
  void Intersect(CharClass other) { also_.push_back(std::move(other)); }
  void Negate() { negated_ = !negated_; }
  // Adds the other case of each ASCII letter; false if the set holds cased characters that this
  // engine cannot fold.
  bool FoldCase();
  // Merges its parts where possible; call once when complete. False if more than kMaxParts are
  // left.
  bool Finish();
  // Cost of a test of a character past ASCII, in tests of a plain class.
  uint32_t cost() const;

  bool Matches(char32_t c) const {
    if (c < 128) return ascii_[c >> 6] >> (c & 63) & 1;
    return Slow(c);
  }
  bool MatchesAnyBeyondAscii() const { return beyond_ascii_; }
  bool operator==(const CharClass&) const = default;

  static constexpr size_t kMaxParts = 32;

 private:
  bool Slow(char32_t c) const;
  void Simplify();
  void Absorb(CharClass inner);
  void MergeRanges();

  struct Range {
    char32_t first, last;
    bool operator==(const Range&) const = default;
  };
  struct Property {
    uint32_t bits;
    bool negated;
    bool operator==(const Property&) const = default;
  };
  std::vector<Range> ranges_;
  uint32_t categories_ = 0;  // mask of general categories that are in
  std::vector<Property> properties_;
  std::vector<CharClass> nested_;
  std::vector<CharClass> also_;
  bool negated_ = false;
  bool beyond_ascii_ = true;
  std::array<uint64_t, 2> ascii_{};
};

// The steps that all searches in one text may take together, as the text may be cut into pieces
// first.
struct RegexBudget {
  explicit RegexBudget(size_t text_bytes, Work* counts_in = nullptr)
      : steps(1'000'000 + 400 * static_cast<int64_t>(text_bytes)), work(counts_in) {}
  int64_t steps;
  Work* work;  // may be null
};

class Regex {
 public:
  static Expected<Regex> Compile(std::string_view pattern);
  // A pattern that matches `literal` and nothing else.
  static Regex Literal(std::string_view literal);

  // All matches from left to right; an empty one right after another match is skipped. False if the
  // text took more than the budget, or more than 50 MiB of places to backtrack to, or if
  // budget->work was stopped.
  bool FindAll(std::string_view text, RegexBudget* budget, std::vector<ByteRange>* matches) const;
  bool FindAll(std::string_view text, std::vector<ByteRange>* matches) const {
    RegexBudget budget(text.size());
    return FindAll(text, &budget, matches);
  }
  bool can_be_empty() const { return can_be_empty_; }

 private:
  friend class RegexCompiler;
  enum class Op : uint8_t {
    kChar,
    kClass,
    kAny,
    kAnyLine,  // one character
    kLoop,
    kLazyLoop,
    kHardLoop,  // one class, min to max times
    kSplit,     // try x, then y; min: its number among the splits
    kJump,
    kMatch,
    kLineBegin,
    kLineEnd,
    kTextBegin,
    kTextEnd,
    kTextEndOrNewline,
    kWordEdge,
    kNotWordEdge,
    kLook,
    kNotLook,  // the program at x, then go on at y
    kLookBehind,
    kNotLookBehind,  // class x just before
    kAtomic,         // the program at x once, then go on at y from its end
  };
  struct Inst {
    Op op;
    uint32_t x = 0, y = 0;  // y of a class: steps it costs more than one
    uint32_t min = 0, max = 0;
  };
  struct Frame {
    // The next thing to try after a failure: the second way of a split; a greedy loop with a
    // character less; a lazy one with one more; or nothing, only to remember the failure.
    enum Kind : uint8_t { kSecondWay, kGiveBack, kTakeMore, kSpentSplit, kSpentLoop };
    uint16_t pc;
    Kind kind;
    uint32_t at;
    uint32_t extra;  // kGiveBack: not below this byte; kTakeMore: characters taken so far, or where
                     // an endless loop had its minimum; kSpentLoop: end of the run from `at`
  };
  static constexpr size_t kMaxFrames = size_t(1) << 22;  // 12 bytes each
  enum class Found { kYes, kNo, kTooManySteps };
  struct Search;
  static constexpr uint32_t kInfinite = 0xFFFFFFFF;

  // The first match at or after byte `from`.
  Found Find(Search* search, size_t from, ByteRange* match) const;
  // `look`: for look-ahead, which needs no end of the match.
  Found Run(Search* search, uint32_t pc, size_t at, bool look, size_t* end) const;
  bool Loop(Search* search, uint32_t pc, size_t* at) const;
  // Pops the next alternative to try off the stack; false: the stack is down to `base`.
  bool Backtrack(Search* search, size_t base, uint32_t* pc, size_t* at) const;
  // The first byte from `at` where a match could start, or the end; only if first_known_.
  size_t NextStart(std::string_view text, size_t at) const {
    while (at < text.size() && !starts_[static_cast<unsigned char>(text[at])]) ++at;
    return at;
  }
  bool FindLiteral(std::string_view text, size_t from, ByteRange* match) const;
  bool Single(const Inst& inst, char32_t c) const;
  bool Assertion(Op op, uint32_t x, std::string_view text, size_t at) const;
  void Analyse();

  std::vector<Inst> program_;
  std::vector<CharClass> classes_;
  std::string literal_;  // not empty: plain search
  // For a long literal: how many of its first i + 1 bytes also end them, for Knuth, Morris and
  // Pratt.
  std::vector<uint32_t> borders_;
  bool can_be_empty_ = false;
  uint32_t splits_ = 0;       // number of kSplit
  bool first_known_ = false;  // starts_ holds all bytes a match can start with
  std::array<bool, 256> starts_{};
};

}  // namespace penstock::regex
