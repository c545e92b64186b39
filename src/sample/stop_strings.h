// Stop strings over the bytes of a stream of tokens, and what of the text may be given out.
//
// The stop string that ends first wins, and of those that end at the same byte the longest, however
// the bytes were cut into tokens. Text is given out as whole UTF-8 characters only, and never a
// byte that could still turn out to be part of a stop string; it comes out once it no longer can.
// Bytes that are no UTF-8 come out as U+FFFD, one for each maximal ill-formed subpart (Unicode
// 15, 3.9), as tokenizers decode them.
//
// The search is Knuth, Morris and Pratt's ("Fast pattern matching in strings", 1977), one automaton
// a stop string: amortised one comparison for each byte and stop string.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace penstock::sample {

// kInvalidArgument, field "stop" or "stop[2]": more than kStopStringsMax, one that is empty, longer
// than kStopStringBytesMax or no UTF-8.
Status CheckStopStrings(std::span<const std::string> stops);

// One generation's text. Not thread-safe.
class StopStrings {
 public:
  // As CheckStopStrings. With `include_stop` the text ends with the stop string, else before it.
  static Expected<StopStrings> Make(std::span<const std::string> stops, bool include_stop);

  // The bytes of the next token; appends to *out what may be given out now. True: a stop string
  // ended in these bytes, *out has the last of the text, and the bytes behind it are dropped. Not
  // to be called after that or after Finish. Allocates nothing but *out, where a token has at most
  // kTokenBytes bytes. Without `may_end` a stop string that ends in these bytes is text.
  bool Push(std::string_view bytes, std::string* out, bool may_end = true);
  // No token follows: appends what was held back. A character that is not complete is U+FFFD.
  void Finish(std::string* out);

  // Which of `stops` ended the text; -1: none did.
  int matched() const { return matched_; }
  size_t held_bytes() const { return held_.size(); }

  static constexpr size_t kTokenBytes = 1024;

 private:
  struct Pattern {
    std::string text;
    std::vector<uint32_t> border;  // [i]: longest proper border of the first i + 1 bytes
    size_t state = 0;              // bytes of `text` that the stream ends with
  };

  StopStrings() = default;
  // Advances all patterns; true where one ends with `byte`, and may.
  bool Advance(char byte, bool may_end);
  // Gives out the first `count` bytes that are held, less an incomplete character at their end.
  void Release(size_t count, std::string* out);

  std::vector<Pattern> patterns_;
  std::string held_;
  int matched_ = -1;
  bool include_stop_ = false;
};

}  // namespace penstock::sample
