#include "unicode/lower_case.h"

#include "unicode/unicode.h"
#include "unicode/utf8.h"

namespace penstock::unicode {
namespace {

constexpr char32_t kCapitalSigma = 0x3A3;
constexpr char32_t kSmallSigma = 0x3C3;
constexpr char32_t kFinalSigma = 0x3C2;

// Unicode 3.13: Case_Ignorable characters are looked through, Cased ones decide. Categories stand
// in for the two properties, with the punctuation that is word-internal (MidLetter and the like).
bool IsCaseIgnorable(char32_t c) {
  switch (UnicodeCategoryOf(c)) {
    case kCatMn:
    case kCatMe:
    case kCatCf:
    case kCatLm:
    case kCatSk:
      return true;
    default:
      break;
  }
  return c == '\'' || c == '.' || c == ':' || c == 0xB7 || c == 0x387 || c == 0x55F || c == 0x5F4 ||
         c == 0x2018 || c == 0x2019 || c == 0x2024 || c == 0x2027 || c == 0xFE13 || c == 0xFE52 ||
         c == 0xFE55 || c == 0xFF07 || c == 0xFF0E || c == 0xFF1A;
}

bool IsCased(char32_t c) {
  const UnicodeCategory category = UnicodeCategoryOf(c);
  return category == kCatLu || category == kCatLl || category == kCatLt;
}

// Whether the capital sigma (two bytes) at `at` ends a word.
bool EndsWord(std::string_view text, size_t at) {
  bool cased_before = false;
  int length = 0;
  for (size_t i = at; i > 0; i -= length) {
    const char32_t c = DecodeUtf8Before(text.data() + i, &length);
    if (IsCaseIgnorable(c)) continue;
    cased_before = IsCased(c);
    break;
  }
  if (!cased_before) return false;
  for (size_t i = at + 2; i < text.size(); i += length) {
    const char32_t c = DecodeUtf8(text.data() + i, &length);
    if (!IsCaseIgnorable(c)) return !IsCased(c);
  }
  return true;
}

}  // namespace

std::string LowerCase(std::string_view text) {
  std::string storage;
  if (!SanitizeUtf8(text, &storage)) text = storage;
  std::string out;
  out.reserve(text.size());
  int length = 0;
  for (size_t i = 0; i < text.size(); i += length) {
    const char32_t c = DecodeUtf8(text.data() + i, &length);
    if (c == kCapitalSigma) {
      AppendUtf8(EndsWord(text, i) ? kFinalSigma : kSmallSigma, &out);
    } else if (UnicodeProps(c) & kUniHasLower) {
      for (const uint32_t lower : LowercaseOf(c)) AppendUtf8(lower, &out);
    } else {
      out.append(text, i, length);
    }
  }
  return out;
}

}  // namespace penstock::unicode
