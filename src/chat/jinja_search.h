// Searches in texts whose time is linear, whatever a template looks for in what.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace penstock::chat::jinja {

// As text.find(needle, from). std::string_view's own is quadratic at worst.
inline size_t FindText(std::string_view text, std::string_view needle, size_t from = 0) {
  if (from > text.size()) return text.npos;
  if (needle.empty()) return from;
  const void* const found =
      memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  return found == nullptr ? text.npos : static_cast<const char*>(found) - text.data();
}

// text.rfind(needle), from the end: Knuth, Morris and Pratt's way over the reversed texts. Each
// search takes the time of what it walks over.
class BackwardSearch {
 public:
  // What it takes.
  static size_t BytesFor(std::string_view needle) { return needle.size() * sizeof(uint32_t); }
  explicit BackwardSearch(std::string_view needle) : needle_(needle), borders_(needle.size()) {
    for (size_t i = 1, border = 0; i < needle.size(); ++i) {
      while (border > 0 && At(i) != At(border)) border = borders_[border - 1];
      if (At(i) == At(border)) ++border;
      borders_[i] = static_cast<uint32_t>(border);
    }
  }
  size_t Find(std::string_view text) const {
    if (needle_.empty()) return text.size();
    size_t matched = 0;
    for (size_t at = text.size(); at-- > 0;) {
      while (matched > 0 && text[at] != At(matched)) matched = borders_[matched - 1];
      if (text[at] == At(matched)) ++matched;
      if (matched == needle_.size()) return at;
    }
    return text.npos;
  }

 private:
  char At(size_t i) const { return needle_[needle_.size() - 1 - i]; }
  std::string_view needle_;
  std::vector<uint32_t> borders_;
};

}  // namespace penstock::chat::jinja
