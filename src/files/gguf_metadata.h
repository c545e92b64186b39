// The metadata of a GGUF file: values by key, viewed where they lie in the mapped file. An array of
// 250,000 strings costs no copy and no index.
//
// Everything was checked against the file when it was opened. Views check again what they need to
// stay inside it, since another process may write to a mapped file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "files/byte_reader.h"

namespace penstock::files {

// Types of values, with the numbers that they have in files.
enum class GgufType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};
const char* GgufTypeName(GgufType type);  // "uint8", ..., "string", "array"

// Arrays in arrays, the outermost counted. Known files have one level; this bounds the recursion.
inline constexpr int kGgufArrayDepthMax = 4;
// Known files have some hundred; this bounds a broken header.
inline constexpr size_t kGgufKeysMax = 1 << 16;
inline constexpr size_t kGgufKeyBytesMax = (1 << 16) - 1;  // the specification's

class GgufArray;

// Elements of variable length, strings or arrays, read in order:
//   for (const std::string_view token : *strings) ...
template <typename T>
class GgufSequence {
 public:
  class Iterator {
   public:
    using value_type = T;
    using difference_type = std::ptrdiff_t;

    Iterator() = default;
    Iterator(std::span<const std::byte> bytes, size_t count) : rest_(bytes), left_(count) {
      if (left_ > 0) ReadNext();
    }
    const T& operator*() const { return now_; }
    Iterator& operator++() {
      if (--left_ > 0) ReadNext();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return left_ == 0; }

   private:
    void ReadNext();  // an element that is not whole any more is empty

    ByteReader rest_{{}};
    size_t left_ = 0;
    T now_;
  };

  GgufSequence(std::span<const std::byte> bytes, size_t count) : bytes_(bytes), count_(count) {}
  size_t size() const { return count_; }
  Iterator begin() const { return {bytes_, count_}; }
  std::default_sentinel_t end() const { return {}; }

 private:
  std::span<const std::byte> bytes_;
  size_t count_;
};
using GgufStrings = GgufSequence<std::string_view>;
using GgufArrays = GgufSequence<GgufArray>;

// Elements of one length, of any of the types that T covers: int64_t, double or bool.
template <typename T>
class GgufNumbers {
 public:
  GgufNumbers(GgufType type, std::span<const std::byte> bytes, size_t count)
      : type_(type), bytes_(bytes), count_(count) {}
  size_t size() const { return count_; }
  T operator[](size_t i) const;  // i < size()

 private:
  GgufType type_;
  std::span<const std::byte> bytes_;
  size_t count_;
};

// An array of values of one type. A view is kInvalidArgument, "must be an array of ...", where the
// type is another.
class GgufArray {
 public:
  GgufArray() = default;
  // What lies in `bytes` was checked by ReadGgufArray.
  GgufArray(GgufType type, size_t count, std::span<const std::byte> bytes)
      : type_(type), count_(count), bytes_(bytes) {}

  GgufType type() const { return type_; }
  size_t size() const { return count_; }
  std::span<const std::byte> bytes() const { return bytes_; }

  Expected<GgufStrings> Strings() const;
  Expected<GgufArrays> Arrays() const;
  Expected<GgufNumbers<int64_t>> Ints() const;  // also where a uint64 is above 2^63 - 1
  Expected<GgufNumbers<double>> Floats() const;
  Expected<GgufNumbers<bool>> Bools() const;

 private:
  GgufType type_ = GgufType::kUint8;
  size_t count_ = 0;
  std::span<const std::byte> bytes_;
};

// A value that is no array is kept as an array of one.
struct GgufValue {
  bool is_array = false;
  GgufArray data;
};

// Get...() needs the key, Get...Or() returns the default where it is absent; both give
// kInvalidArgument, the key named, where the value is of another type or outside [min, max].
// Strings are bytes as the file has them: UTF-8, if the file is as the specification wants it.
class GgufMetadata {
 public:
  // Takes `count` keys with their values off `reader`, and keeps views of what it reads.
  static Expected<GgufMetadata> Read(uint64_t count, ByteReader* reader);

  bool Has(std::string_view key) const { return values_.contains(key); }
  const std::map<std::string_view, GgufValue>& values() const { return values_; }

  Expected<int64_t> GetInt(std::string_view key, int64_t min, int64_t max) const;
  Expected<int64_t> GetIntOr(std::string_view key, int64_t absent, int64_t min, int64_t max) const;
  // Of a float32 or float64; NaN lies outside of every range.
  Expected<double> GetFloat(std::string_view key, double min = kLowest, double max = kMax) const;
  Expected<double> GetFloatOr(std::string_view key, double absent, double min = kLowest,
                              double max = kMax) const;
  Expected<bool> GetBool(std::string_view key) const;
  Expected<bool> GetBoolOr(std::string_view key, bool absent) const;
  Expected<std::string_view> GetString(std::string_view key) const;
  Expected<std::string_view> GetStringOr(std::string_view key, std::string_view absent) const;
  Expected<GgufArray> GetArray(std::string_view key) const;
  Expected<GgufStrings> GetStrings(std::string_view key) const;
  Expected<GgufNumbers<int64_t>> GetInts(std::string_view key) const;
  Expected<GgufNumbers<double>> GetFloats(std::string_view key) const;
  Expected<GgufNumbers<bool>> GetBools(std::string_view key) const;

 private:
  static constexpr double kLowest = std::numeric_limits<double>::lowest();
  static constexpr double kMax = std::numeric_limits<double>::max();

  Expected<const GgufValue*> Need(std::string_view key) const;
  Expected<GgufArray> Scalar(std::string_view key, std::string_view wanted) const;

  std::map<std::string_view, GgufValue> values_;
};

// Takes an array (the type of its elements, their count, the elements) off `reader` and checks all
// of it. `depth`: how many arrays it lies in.
Status ReadGgufArray(int depth, ByteReader* reader, GgufArray* array);

}  // namespace penstock::files
