// Runs of ASCII letters and digits, 16 bytes at a time: words of most texts end within one look,
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

}  // namespace penstock::unicode
