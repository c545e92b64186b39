// A small regular expression engine for the patterns that tokenizer files carry.
//
// Oniguruma's Ruby syntax as far as such patterns use it: alternation, groups, (?i:), look-ahead
// and look-behind of one character class, greedy, lazy and possessive quantifiers, classes with
// \p{..}, nesting and &&, ^ and $ at lines, \b. Anything else is refused by name. Leftmost match,
// first alternative wins, by backtracking; loops over one class take no stack. Without captures,
// what follows a point of the program depends on the place in the text alone, so what failed once
// is remembered (after Davis et al., "Using Selective Memoization to Defeat Regular Expression
// Denial of Service", 2021). A search that takes too many steps all the same fails instead of
// hanging.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"

namespace penstock {

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
  // Call once when complete.
  void Finish();

  bool Matches(char32_t c) const {
    if (c < 128) return ascii_[c >> 6] >> (c & 63) & 1;
    return Slow(c);
  }
  bool MatchesAnyBeyondAscii() const { return beyond_ascii_; }

 private:
  bool Slow(char32_t c) const;

  struct Range {
    char32_t first, last;
  };
  struct Property {
    uint32_t bits;
    bool negated;
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

class Regex {
 public:
  // Limits: 64 KiB of pattern, 20,000 instructions once counted loops are unrolled.
  static Expected<Regex> Compile(std::string_view pattern);
  // A pattern that matches `literal` and nothing else.
  static Regex Literal(std::string_view literal);

  // All matches from left to right; an empty one right after another match is skipped.
  // False if the text took too many steps.
  bool FindAll(std::string_view text, std::vector<ByteRange>* matches) const;
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
    kSplit,     // try x, then y; the min-th of its kind
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
    uint32_t x = 0, y = 0;
    uint32_t min = 0, max = 0;
  };
  struct Frame {
    // What to try when all after it failed: the second way of a split; a greedy loop with a
    // character less; a lazy one with one more; or nothing more, which is to be remembered.
    enum Kind : uint8_t { kSecondWay, kGiveBack, kTakeMore, kSpentSplit, kSpentLoop };
    uint32_t pc;
    Kind kind;
    size_t at;
    size_t extra;  // kGiveBack: not below this byte; kTakeMore: characters taken so far, or where
                   // an endless loop had its minimum; kSpentLoop: end of the run from `at`
  };
  enum class Found { kYes, kNo, kTooManySteps };
  struct Search;
  static constexpr uint32_t kInfinite = 0xFFFFFFFF;

  // The first match at or after byte `from`.
  Found Find(Search* search, size_t from, ByteRange* match) const;
  // `look`: only whether there is a match counts, not where it ends.
  Found Run(Search* search, uint32_t pc, size_t at, bool look, size_t* end) const;
  bool Loop(Search* search, uint32_t pc, size_t* at) const;
  // Takes the next thing to try off the stack; false if there is none above `base`.
  bool Backtrack(Search* search, size_t base, uint32_t* pc, size_t* at) const;
  bool Single(const Inst& inst, char32_t c) const;
  bool Assertion(Op op, uint32_t x, std::string_view text, size_t at) const;
  void Analyse();

  std::vector<Inst> program_;
  std::vector<CharClass> classes_;
  std::string literal_;  // not empty: plain search
  bool can_be_empty_ = false;
  uint32_t splits_ = 0;       // number of kSplit
  bool first_known_ = false;  // first_ holds all ASCII characters a match can start with
  std::array<bool, 128> first_{};
  bool first_beyond_ascii_ = true;
};

}  // namespace penstock
