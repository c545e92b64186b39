// Character classes and mappings, the way Hugging Face `tokenizers` sees them.
//
// The tables come from tools/gen_unicode_tables.py, which queries that package; its parts use
// different Unicode versions, hence classes that look alike (two kinds of whitespace, two of word
// characters). All functions are pure and safe in any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::unicode {

// Bits of UnicodeProps(). Keep in step with the constants in tools/gen_unicode_tables.py.
enum UnicodeBits : uint32_t {
  kUniCategoryMask = 0x1F,        // index into the regex engine's general categories
  kUniRegexSpace = 1u << 5,       // \s of the Split regexes
  kUniRegexWord = 1u << 6,        // \w of the Split regexes
  kUniHan = 1u << 7,              // \p{Han}
  kUniBertRemoved = 1u << 8,      // BertNormalizer's clean_text drops it
  kUniBertSpace = 1u << 9,        // clean_text makes it a space
  kUniSpace = 1u << 10,           // whitespace to pre-tokenizers and strippers
  kUniPunct = 1u << 11,           // Punctuation, BertPreTokenizer
  kUniNonspacing = 1u << 12,      // BertNormalizer's strip_accents drops it
  kUniMark = 1u << 13,            // StripAccents drops it
  kUniNumeric = 1u << 14,         // Digits
  kUniWord = 1u << 15,            // \w of the Whitespace pre-tokenizer and of single_word
  kUniPictograph = 1u << 20,      // Extended_Pictographic
  kUniIndicConsonant = 1u << 21,  // Indic_Conjunct_Break = Consonant
  kUniIndicLinker = 2u << 21,     // Indic_Conjunct_Break = Linker
  // Derived from the mappings when the tables are built.
  kUniHasLower = 1u << 23,       // lowercase differs
  kUniHasCanonical = 1u << 24,   // canonical decomposition differs
  kUniHasCompatible = 1u << 25,  // compatibility decomposition differs from the character
  kUniCombining = 1u << 26,      // combining class is not 0
  kUniComposesBack = 1u << 27,   // may compose with a character before it
  kUniNfcChanges = 1u << 28,     // NFC of the character alone differs
  kUniNfkcChanges = 1u << 29,    // NFKC of the character alone differs
};

// Grapheme cluster break classes, in bits 16..19.
enum class GraphemeBreak : uint8_t {
  kOther,
  kCR,
  kLF,
  kControl,
  kExtend,
  kZwj,
  kRegional,
  kPrepend,
  kSpacing,
  kL,
  kV,
  kT,
  kLV,
  kLVT
};

// General categories by their index in kUniCategoryMask.
enum UnicodeCategory : uint8_t {
  kCatCn,
  kCatCc,
  kCatCf,
  kCatCo,
  kCatCs,
  kCatLl,
  kCatLm,
  kCatLo,
  kCatLt,
  kCatLu,
  kCatMc,
  kCatMe,
  kCatMn,
  kCatNd,
  kCatNl,
  kCatNo,
  kCatPc,
  kCatPd,
  kCatPe,
  kCatPf,
  kCatPi,
  kCatPo,
  kCatPs,
  kCatSc,
  kCatSk,
  kCatSm,
  kCatSo,
  kCatZl,
  kCatZp,
  kCatZs
};
// Sets of categories as bit masks: "L", "Lu", "N", ... 0 if there is no such name.
uint32_t UnicodeCategoryMaskByName(std::string_view name);

// Two-stage table: a block number for each 128 code points, then the blocks.
struct UnicodeTable {
  std::vector<uint16_t> block_of;
  std::vector<uint32_t> blocks;
  uint32_t Get(char32_t c) const {
    if (c > 0x10FFFF) return 0;
    return blocks[size_t(block_of[c >> 7]) << 7 | (c & 127)];
  }
};
const UnicodeTable& UnicodePropertyTable();

inline uint32_t UnicodeProps(char32_t c) { return UnicodePropertyTable().Get(c); }
inline UnicodeCategory UnicodeCategoryOf(char32_t c) {
  return static_cast<UnicodeCategory>(UnicodeProps(c) & kUniCategoryMask);
}
inline GraphemeBreak GraphemeBreakOf(uint32_t props) {
  return static_cast<GraphemeBreak>(props >> 16 & 15);
}

// Canonical combining class; 0 for starters.
uint8_t CombiningClass(char32_t c);
// Lowercase of a character with kUniHasLower: 1 to 3 characters.
std::span<const uint32_t> LowercaseOf(char32_t c);
// Full decomposition. Empty if there is none; Hangul is done by DecomposeHangul.
std::span<const uint32_t> CanonicalDecomposition(char32_t c);
std::span<const uint32_t> CompatibleDecomposition(char32_t c);
inline bool IsHangulSyllable(char32_t c) { return c >= 0xAC00 && c <= 0xD7A3; }
// Writes 2 or 3 jamo; returns how many.
int DecomposeHangul(char32_t c, char32_t out[3]);
// The primary composite of a pair, Hangul included; 0 if there is none.
char32_t ComposePair(char32_t first, char32_t second);
// Whether `c` matches the ASCII letter (either case) when case is ignored.
bool EqualsIgnoreCase(char32_t c, char letter);
// Characters past ASCII that equal `letter` (lower case) when case is ignored.
std::vector<char32_t> CaseVariants(char letter);

// Length in bytes of the extended grapheme cluster at the start of `text` (UAX #29); 0 if empty.
size_t GraphemeLength(std::string_view text);

}  // namespace penstock::unicode
