// ASCII only, whatever the locale: names of headers, hosts and settings.
#pragma once

#include <string>
#include <string_view>

namespace penstock {

// 'A' to 'Z' made small; other bytes stay.
inline std::string LowerAscii(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
  }
  return lower;
}

}  // namespace penstock
