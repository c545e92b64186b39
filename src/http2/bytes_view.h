// Bytes as the library gives them, as text. Internal to http2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace penstock::http2 {

inline std::string_view BytesView(const uint8_t* bytes, size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

}  // namespace penstock::http2
