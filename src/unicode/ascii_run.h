// Runs of ASCII, 16 bytes at a time: words of most texts end within one look,
// where a loop byte by byte would end at a branch that no processor foresees.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace penstock::unicode {

#if defined(__SSE2__)
// 0xFF in the bytes from `first` on, `count` values.
inline __m128i BytesWithin(__m128i bytes, char first, char count) {
  // Values below `first` wrap to large ones; what saturates at zero is within.
  const __m128i from_first = _mm_sub_epi8(bytes, _mm_set1_epi8(first));
  const __m128i last = _mm_set1_epi8(static_cast<char>(count - 1));
  return _mm_cmpeq_epi8(_mm_subs_epu8(from_first, last), _mm_setzero_si128());
}
inline __m128i LoadBytes(std::string_view text) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(text.data()));
}
inline __m128i LettersOf(__m128i bytes) {
  return BytesWithin(_mm_or_si128(bytes, _mm_set1_epi8(0x20)), 'a', 26);
}
inline size_t LeadingBytes(__m128i mask) {
  return static_cast<size_t>(std::countr_one(static_cast<uint32_t>(_mm_movemask_epi8(mask))));
}
#endif

// The number of ASCII letters that `text` begins with, or fewer: at most 16, and 0 near its end.
inline size_t SomeAsciiLetters(std::string_view text) {
#if defined(__SSE2__)
  if (text.size() >= 16) return LeadingBytes(LettersOf(LoadBytes(text)));
#endif
  (void)text;
  return 0;
}
// The same of letters and digits.
inline size_t SomeAsciiAlnum(std::string_view text) {
#if defined(__SSE2__)
  if (text.size() >= 16) {
    const __m128i bytes = LoadBytes(text);
    return LeadingBytes(_mm_or_si128(LettersOf(bytes), BytesWithin(bytes, '0', 10)));
  }
#endif
  (void)text;
  return 0;
}

// Sets a bit for each of the first 64 bytes that is an ASCII letter or digit. Returns false if the
// text is shorter, or the build has no SSE2.
inline bool AsciiAlnumBits(std::string_view text, uint64_t* bits) {
#if defined(__SSE2__)
  if (text.size() >= 64) {
    *bits = 0;
    for (size_t part = 0; part < 4; ++part) {
      const __m128i bytes = LoadBytes(text.substr(16 * part));
      const __m128i alnum = _mm_or_si128(LettersOf(bytes), BytesWithin(bytes, '0', 10));
      *bits |= static_cast<uint64_t>(_mm_movemask_epi8(alnum)) << 16 * part;
    }
    return true;
  }
#endif
  (void)text;
  (void)bits;
  return false;
}

// Whether 16 bytes are ASCII that is printed, spaces among it. With `lowercase`, such bytes become
// lower case.
inline bool LowercasePrinted16([[maybe_unused]] char* bytes, [[maybe_unused]] bool lowercase) {
#if defined(__SSE2__)
  auto* const place = reinterpret_cast<__m128i*>(bytes);
  const __m128i all = _mm_loadu_si128(place);
  if (_mm_movemask_epi8(BytesWithin(all, 0x20, 0x5F)) != 0xFFFF) return false;
  if (lowercase) {
    const __m128i upper = BytesWithin(all, 'A', 26);
    _mm_storeu_si128(place, _mm_add_epi8(all, _mm_and_si128(upper, _mm_set1_epi8(0x20))));
  }
  return true;
#else
  return false;
#endif
}

}  // namespace penstock::unicode
