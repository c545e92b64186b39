// ByteReader: takes little-endian values off the front of bytes, and never reads behind their end.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace penstock::files {

static_assert(std::endian::native == std::endian::little, "values are copied, not converted");

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : rest_(bytes) {}

  std::span<const std::byte> rest() const { return rest_; }
  size_t left() const { return rest_.size(); }

  // Each gives false, and takes nothing, where too few bytes are left.
  template <typename T>
  bool Read(T* value) {
    if (rest_.size() < sizeof(T)) return false;
    std::memcpy(value, rest_.data(), sizeof(T));
    rest_ = rest_.subspan(sizeof(T));
    return true;
  }
  bool Take(uint64_t count, std::span<const std::byte>* bytes) {
    if (rest_.size() < count) return false;
    *bytes = rest_.first(static_cast<size_t>(count));
    rest_ = rest_.subspan(static_cast<size_t>(count));
    return true;
  }
  // A length of eight bytes, then as many bytes.
  bool ReadString(std::string_view* text) {
    uint64_t length = 0;
    ByteReader after = *this;
    std::span<const std::byte> bytes;
    if (!after.Read(&length) || !after.Take(length, &bytes)) return false;
    *text = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    *this = after;
    return true;
  }

 private:
  std::span<const std::byte> rest_;
};

}  // namespace penstock::files
