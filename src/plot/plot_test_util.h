// For tests of pictures.
#pragma once

#include <cstddef>
#include <string>

namespace penstock::plot {

// How often `part` is in `text`.
inline size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
  return count;
}

}  // namespace penstock::plot
