#include "unicode/utf8.h"

namespace penstock::unicode {

size_t Utf8Count(std::string_view text) {
  size_t count = 0;
  for (char c : text) count += !IsUtf8Continuation(static_cast<unsigned char>(c));
  return count;
}

Utf8Tail ScanUtf8(std::string_view text, size_t* valid_length, size_t* bad_length) {
  const auto* b = reinterpret_cast<const unsigned char*>(text.data());
  const size_t n = text.size();
  size_t i = 0;
  while (i < n) {
    const unsigned char lead = b[i];
    if (lead < 0x80) {
      ++i;
      continue;
    }
    // The second byte has a narrower range after E0, ED, F0 and F4 (no overlong form, no
    // surrogate, nothing past U+10FFFF).
    int more = 0;
    unsigned char low = 0x80, high = 0xBF;
    if (lead >= 0xC2 && lead <= 0xDF) {
      more = 1;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
      more = 2;
      if (lead == 0xE0) low = 0xA0;
      if (lead == 0xED) high = 0x9F;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
      more = 3;
      if (lead == 0xF0) low = 0x90;
      if (lead == 0xF4) high = 0x8F;
    }
    *valid_length = i;
    if (more == 0) {
      *bad_length = 1;
      return Utf8Tail::kInvalid;
    }
    for (int k = 1; k <= more; ++k) {
      if (i + k == n) return Utf8Tail::kIncomplete;
      if (b[i + k] < low || b[i + k] > high) {
        *bad_length = k;
        return Utf8Tail::kInvalid;
      }
      low = 0x80;
      high = 0xBF;
    }
    i += more + 1;
  }
  *valid_length = n;
  return Utf8Tail::kEnd;
}

void AppendSanitizedUtf8(std::string_view bytes, std::string* out) {
  while (!bytes.empty()) {
    size_t valid = 0, bad = 0;
    const Utf8Tail tail = ScanUtf8(bytes, &valid, &bad);
    out->append(bytes.substr(0, valid));
    if (tail == Utf8Tail::kEnd) return;
    AppendUtf8(kReplacementChar, out);
    if (tail == Utf8Tail::kIncomplete) return;
    bytes.remove_prefix(valid + bad);
  }
}

bool SanitizeUtf8(std::string_view text, std::string* storage) {
  if (IsValidUtf8(text)) return true;
  storage->clear();
  storage->reserve(text.size() + text.size() / 8);
  AppendSanitizedUtf8(text, storage);
  return false;
}

}  // namespace penstock::unicode
