// GGUF files put together byte by byte, broken ones too, for tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/gguf.h"

namespace penstock::files {

template <typename T>
std::string Raw(T number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}
inline std::string RawType(GgufType type) { return Raw(static_cast<uint32_t>(type)); }
inline std::string RawText(std::string_view text) {
  return Raw(uint64_t{text.size()}) + std::string(text);
}
inline std::string RawKey(std::string_view key, GgufType type, const std::string& value) {
  return RawText(key) + RawType(type) + value;
}
inline std::string RawArray(GgufType type, uint64_t count, const std::string& elements) {
  return RawType(type) + Raw(count) + elements;
}
// `sizes` as in the file, the fastest first; `type` is the file's number.
inline std::string RawTensor(std::string_view name, std::initializer_list<uint64_t> sizes,
                             uint32_t type, uint64_t offset) {
  std::string out = RawText(name) + Raw(static_cast<uint32_t>(sizes.size()));
  for (const uint64_t size : sizes) out += Raw(size);
  return out + Raw(type) + Raw(offset);
}

// A file with these keys and tensors and `data` behind the padding.
inline std::string RawGguf(const std::vector<std::string>& keys,
                           const std::vector<std::string>& tensors, const std::string& data,
                           uint64_t alignment = kGgufAlignment, uint32_t version = 3) {
  std::string out =
      "GGUF" + Raw(version) + Raw(uint64_t{tensors.size()}) + Raw(uint64_t{keys.size()});
  for (const std::string& key : keys) out += key;
  for (const std::string& tensor : tensors) out += tensor;
  if (!data.empty()) out.resize((out.size() + alignment - 1) / alignment * alignment);
  return out + data;
}

inline std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// Reads all there is to read: every value by every getter, every byte of every tensor. The sum is
// of no meaning.
inline uint64_t ReadEverything(const GgufFile& file) {
  uint64_t sum = 0;
  struct {
    void operator()(const GgufArray& array, uint64_t* total) const {
      *total += array.size();
      if (const auto strings = array.Strings(); strings.ok()) {
        for (const std::string_view text : *strings) {
          for (const char c : text) *total += static_cast<unsigned char>(c);
        }
      }
      if (const auto arrays = array.Arrays(); arrays.ok()) {
        for (const GgufArray& inner : *arrays) (*this)(inner, total);
      }
      if (const auto ints = array.Ints(); ints.ok()) {
        for (size_t i = 0; i < ints->size(); ++i) *total += static_cast<uint64_t>((*ints)[i]);
      }
      if (const auto floats = array.Floats(); floats.ok()) {
        for (size_t i = 0; i < floats->size(); ++i) *total += (*floats)[i] > 0;
      }
      if (const auto bools = array.Bools(); bools.ok()) {
        for (size_t i = 0; i < bools->size(); ++i) *total += (*bools)[i];
      }
    }
  } const walk;
  for (const auto& [key, value] : file.metadata.values()) {
    walk(value.data, &sum);
    sum += file.metadata.GetInt(key, INT64_MIN, INT64_MAX).ok();
    sum += file.metadata.GetFloat(key).ok();
    sum += file.metadata.GetBool(key).ok();
    sum += file.metadata.GetString(key).ok();
    sum += file.metadata.GetStrings(key).ok();
  }
  for (const TensorRecord& tensor : file.tensors) {
    for (const std::byte byte : tensor.data) sum += std::to_integer<unsigned>(byte);
  }
  return sum;
}

}  // namespace penstock::files
