// Hand-written matchers for the published split patterns of large tokenizers, many times faster
// than the regex engine. Chosen only when a file's pattern is the same string.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace penstock::regex {

class KnownPattern {
 public:
  // The matcher of exactly this pattern, or null.
  static const KnownPattern* Find(std::string_view pattern);
  static const KnownPattern& Gpt2();
  static std::span<const KnownPattern> All();

  // Calls emit(begin, end) for consecutive pieces that cover `text`: all these patterns match
  // every character.
  template <typename Emit>
  void Cut(std::string_view text, Emit emit) const {
    for (size_t at = 0; at < text.size();) {
      const size_t end = next_(text, at, *this);
      emit(at, end);
      at = end;
    }
  }

  std::string_view pattern;
  size_t (*next_)(std::string_view text, size_t at, const KnownPattern& self);
  int max_digits;        // \p{N}{1,max_digits}
  bool marks_in_words;   // [\p{L}\p{M}] where others have \p{L}
  bool modifier_is_low;  // o200k: \p{Lm} also counts as lower case
};

}  // namespace penstock::regex
