#include "regex/split_patterns.h"

#include <cstdint>

#include "unicode/ascii_run.h"
#include "unicode/unicode.h"
#include "unicode/utf8.h"

namespace penstock::regex {
namespace {

// The classes of a character in these patterns, as bits.
enum Kind : uint16_t {
  kLetter = 1,
  kNumber = 2,
  kSpaceKind = 4,
  kNewline = 8,
  kMarkKind = 16,
  kUpperSide = 32,  // Lu Lt Lm Lo M
  kLowerSide = 64,  // Ll Lo M
  kModifier = 128,  // Lm
};

constexpr uint32_t Bit(int category) { return 1u << category; }
constexpr uint32_t kLetters = Bit(unicode::kCatLl) | Bit(unicode::kCatLm) | Bit(unicode::kCatLo) |
                              Bit(unicode::kCatLt) | Bit(unicode::kCatLu);
constexpr uint32_t kNumbers = Bit(unicode::kCatNd) | Bit(unicode::kCatNl) | Bit(unicode::kCatNo);
constexpr uint32_t kMarks = Bit(unicode::kCatMc) | Bit(unicode::kCatMe) | Bit(unicode::kCatMn);

uint16_t KindOfProps(uint32_t props) {
  const uint32_t category = Bit(int(props & unicode::kUniCategoryMask));
  uint16_t kind = 0;
  if (category & kLetters) kind |= kLetter;
  if (category & kNumbers) kind |= kNumber;
  if (category & kMarks) kind |= kMarkKind;
  if (props & unicode::kUniRegexSpace) kind |= kSpaceKind;
  if (category & (Bit(unicode::kCatLu) | Bit(unicode::kCatLt) | Bit(unicode::kCatLm) |
                  Bit(unicode::kCatLo) | kMarks)) {
    kind |= kUpperSide;
  }
  if (category & (Bit(unicode::kCatLl) | Bit(unicode::kCatLo) | kMarks)) kind |= kLowerSide;
  if (category & Bit(unicode::kCatLm)) kind |= kModifier;
  return kind;
}

// Fixed for all Unicode versions, so no table is needed before main().
struct AsciiKinds {
  uint16_t of[128] = {};
  constexpr AsciiKinds() {
    for (int c = 'a'; c <= 'z'; ++c) of[c] = kLetter | kLowerSide;
    for (int c = 'A'; c <= 'Z'; ++c) of[c] = kLetter | kUpperSide;
    for (int c = '0'; c <= '9'; ++c) of[c] = kNumber;
    for (const unsigned char c : std::string_view("\t\n\v\f\r ")) of[c] = kSpaceKind;
    of[int('\n')] |= kNewline;
    of[int('\r')] |= kNewline;
  }
};
constexpr AsciiKinds kAscii;

struct Char {
  uint16_t kind;
  int length;  // 0 at the end of the text
};

Char CharAt(std::string_view text, size_t at) {
  if (at >= text.size()) return {0, 0};
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 128) return {kAscii.of[byte], 1};
  int length = 0;
  const char32_t c = unicode::DecodeUtf8(text.data() + at, &length);
  return {KindOfProps(unicode::UnicodeProps(c)), length};
}

// End of the longest run, from `at`, of characters with any bit of `want` and none of `avoid`.
size_t RunEnd(std::string_view text, size_t at, uint16_t want, uint16_t avoid) {
  const uint16_t lower = kAscii.of['a'], upper = kAscii.of['A'];
  if ((lower & want) && (upper & want) && !((lower | upper) & avoid)) {
    at += unicode::SomeAsciiLetters(text.substr(at));
  }
  for (;;) {
    const Char c = CharAt(text, at);
    if (c.length == 0 || !(c.kind & want) || (c.kind & avoid)) return at;
    at += c.length;
  }
}
// The same for characters with none of `avoid`.
size_t RunEndWithout(std::string_view text, size_t at, uint16_t avoid) {
  for (;;) {
    const Char c = CharAt(text, at);
    if (c.length == 0 || (c.kind & avoid)) return at;
    at += c.length;
  }
}

// 's 't 're 've 'm 'll 'd after an apostrophe at `at`; 0 if none. Ignoring case takes in
// letters past ASCII that fold to these (U+017F to s).
size_t Contraction(std::string_view text, size_t at, bool ignore_case) {
  if (at >= text.size() || text[at] != '\'' || at + 1 >= text.size()) return 0;
  int first_length = 0, second_length = 0;
  const char32_t first = unicode::DecodeUtf8(text.data() + at + 1, &first_length);
  const auto is = [ignore_case](char32_t c, char letter) {
    return ignore_case ? unicode::EqualsIgnoreCase(c, letter) : c == char32_t(letter);
  };
  const size_t one = at + 1 + first_length;
  for (char letter : {'s', 't', 'm', 'd'}) {
    if (is(first, letter)) return one;
  }
  if (one >= text.size()) return 0;
  const char32_t second = unicode::DecodeUtf8(text.data() + one, &second_length);
  const bool two = (is(first, 'r') && is(second, 'e')) || (is(first, 'v') && is(second, 'e')) ||
                   (is(first, 'l') && is(second, 'l'));
  return two ? one + second_length : 0;
}

// \s+(?!\S)|\s+ from `at`, where a space stands: all of the run, but not the last space before
// something else.
size_t SpaceRun(std::string_view text, size_t at) {
  const size_t end = RunEnd(text, at, kSpaceKind, 0);
  if (end == text.size()) return end;
  int length = 0;
  unicode::DecodeUtf8Before(text.data() + end, &length);
  return end - length > at ? end - length : end;
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t NextGpt2(std::string_view text, size_t at, const KnownPattern&) {
  if (text[at] == '\'') {
    if (const size_t end = Contraction(text, at, false)) return end;
  }
  const size_t start = text[at] == ' ' ? at + 1 : at;
  const Char c = CharAt(text, start);
  if (c.length > 0) {
    if (c.kind & kLetter) return RunEnd(text, start, kLetter, 0);
    if (c.kind & kNumber) return RunEnd(text, start, kNumber, 0);
    if (!(c.kind & kSpaceKind)) {
      return RunEndWithout(text, start, kLetter | kNumber | kSpaceKind);
    }
  }
  return SpaceRun(text, at);
}

// \s*[\r\n]+ from `at`: the run of whitespace up to its last line break; 0 if it has none.
size_t SpaceThroughNewline(std::string_view text, size_t at) {
  size_t end = 0;
  while (at < text.size()) {
    const Char c = CharAt(text, at);
    if (!(c.kind & kSpaceKind)) break;
    at += c.length;
    if (c.kind & kNewline) end = at;
  }
  return end;
}

size_t Digits(std::string_view text, size_t at, int most) {
  for (int i = 0; i < most; ++i) {
    const Char c = CharAt(text, at);
    if (!(c.kind & kNumber)) break;
    at += c.length;
  }
  return at;
}

// ` ?[^\s\p{L}\p{N}]+[\r\n]*` (or `[\r\n/]*`, and with \p{M} excluded too); 0 if no match.
size_t Symbols(std::string_view text, size_t at, uint16_t avoid, bool slash) {
  const size_t start = text[at] == ' ' ? at + 1 : at;
  size_t end = RunEndWithout(text, start, avoid);
  if (end == start) return 0;
  while (end < text.size() &&
         (text[end] == '\r' || text[end] == '\n' || (slash && text[end] == '/'))) {
    ++end;
  }
  return end;
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?W+|\p{N}{1,k}| ?[^\sW\p{N}]+[\r\n]*|
// \s*[\r\n]+|\s+(?!\S)|\s+   where W is \p{L} or [\p{L}\p{M}].
size_t NextCl100k(std::string_view text, size_t at, const KnownPattern& self) {
  if (text[at] == '\'') {
    if (const size_t end = Contraction(text, at, true)) return end;
  }
  const uint16_t word = self.marks_in_words ? kLetter | kMarkKind : kLetter;
  const Char first = CharAt(text, at);
  // The optional character before a word: tried with it first (it may itself be a mark).
  if (!(first.kind & (kNewline | kLetter | kNumber))) {
    const size_t end = RunEnd(text, at + first.length, word, 0);
    if (end > at + first.length) return end;
  }
  if (first.kind & word) return RunEnd(text, at, word, 0);
  if (first.kind & kNumber) return Digits(text, at, self.max_digits);
  const uint16_t avoid = word | kNumber | kSpaceKind;
  if (const size_t end = Symbols(text, at, avoid, false)) return end;
  if (const size_t end = SpaceThroughNewline(text, at)) return end;
  return SpaceRun(text, at);
}

// U*L+ and an optional contraction, where some characters are in both sets; 0 if no match.
size_t LowerWord(std::string_view text, size_t at, uint16_t lower) {
  size_t run = at;
  size_t last_both = SIZE_MAX;  // start of the last character of the run that L+ could take
  for (;;) {
    const Char c = CharAt(text, run);
    if (c.length == 0 || !(c.kind & kUpperSide)) break;
    if (c.kind & lower) last_both = run;
    run += c.length;
  }
  size_t end = RunEnd(text, run, lower, 0);
  if (end == run) {
    // U* gives back characters until L+ can take one.
    if (last_both == SIZE_MAX) return 0;
    end = RunEnd(text, last_both, lower, 0);
  }
  const size_t contraction = Contraction(text, end, true);
  return contraction != 0 ? contraction : end;
}

// U+L* and an optional contraction; 0 if no match.
size_t UpperWord(std::string_view text, size_t at, uint16_t lower) {
  const size_t run = RunEnd(text, at, kUpperSide, 0);
  if (run == at) return 0;
  const size_t end = RunEnd(text, run, lower, 0);
  const size_t contraction = Contraction(text, end, true);
  return contraction != 0 ? contraction : end;
}

// P?U*L+C?|P?U+L*C?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
// where P is [^\r\n\p{L}\p{N}], U and L hold upper and lower case plus the caseless, and C is a
// contraction. Each alternative is tried with its P first, then without.
size_t NextO200k(std::string_view text, size_t at, const KnownPattern& self) {
  const uint16_t lower = self.modifier_is_low ? kLowerSide | kModifier : kLowerSide;
  const Char first = CharAt(text, at);
  const bool prefix = !(first.kind & (kNewline | kLetter | kNumber));
  size_t end = 0;
  if (prefix && (end = LowerWord(text, at + first.length, lower))) return end;
  if ((end = LowerWord(text, at, lower))) return end;
  if (prefix && (end = UpperWord(text, at + first.length, lower))) return end;
  if ((end = UpperWord(text, at, lower))) return end;
  if (first.kind & kNumber) return Digits(text, at, self.max_digits);
  if ((end = Symbols(text, at, kLetter | kNumber | kSpaceKind, true))) return end;
  if ((end = SpaceThroughNewline(text, at))) return end;
  return SpaceRun(text, at);
}

// (?i:...) part shared by several patterns.
#define PENSTOCK_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define PENSTOCK_TAIL "[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define PENSTOCK_UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"

#define PENSTOCK_O200K(lower)                                                 \
  "[^\\r\\n\\p{L}\\p{N}]?" PENSTOCK_UPPER "*" lower "+" PENSTOCK_CONTRACTIONS \
  "?|"                                                                        \
  "[^\\r\\n\\p{L}\\p{N}]?" PENSTOCK_UPPER "+" lower "*" PENSTOCK_CONTRACTIONS \
  "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

const KnownPattern kPatterns[] = {
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", NextGpt2,
     0, false, false},
    {PENSTOCK_CONTRACTIONS
     "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+" PENSTOCK_TAIL,
     NextCl100k, 3, false, false},
    {PENSTOCK_CONTRACTIONS
     "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+" PENSTOCK_TAIL,
     NextCl100k, 1, false, false},
    {PENSTOCK_CONTRACTIONS
     "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+" PENSTOCK_TAIL,
     NextCl100k, 1, true, false},
    {PENSTOCK_O200K("[\\p{Ll}\\p{Lo}\\p{M}]"), NextO200k, 3, false, false},
    {PENSTOCK_O200K("[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"), NextO200k, 3, false, true},
};

}  // namespace

const KnownPattern* KnownPattern::Find(std::string_view pattern) {
  for (const KnownPattern& known : kPatterns) {
    if (known.pattern == pattern) return &known;
  }
  return nullptr;
}

const KnownPattern& KnownPattern::Gpt2() { return kPatterns[0]; }

std::span<const KnownPattern> KnownPattern::All() { return kPatterns; }

}  // namespace penstock::regex
