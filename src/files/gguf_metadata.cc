#include "files/gguf_metadata.h"

#include <fmt/format.h>

#include <array>

#include "base/printable.h"

namespace penstock::files {
namespace {

constexpr size_t kStringBytesMin = 8;   // its length
constexpr size_t kArrayBytesMin = 12;   // type and count
constexpr size_t kKeyBytesMin = 8 + 4;  // length of the key, type of the value

// Of a value; of strings and arrays the least.
size_t BytesMin(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kBool:
      return 1;
    case GgufType::kUint16:
    case GgufType::kInt16:
      return 2;
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kFloat32:
      return 4;
    case GgufType::kUint64:
    case GgufType::kInt64:
    case GgufType::kFloat64:
      return 8;
    case GgufType::kString:
      return kStringBytesMin;
    case GgufType::kArray:
      return kArrayBytesMin;
  }
  return 0;
}

bool IsInteger(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kUint16:
    case GgufType::kInt16:
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kUint64:
    case GgufType::kInt64:
      return true;
    default:
      return false;
  }
}

bool IsFloat(GgufType type) { return type == GgufType::kFloat32 || type == GgufType::kFloat64; }

template <typename T>
T Load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// A uint64 above 2^63 - 1 comes out negative.
int64_t IntAt(GgufType type, const std::byte* at) {
  switch (type) {
    case GgufType::kUint8:
      return Load<uint8_t>(at);
    case GgufType::kInt8:
      return Load<int8_t>(at);
    case GgufType::kUint16:
      return Load<uint16_t>(at);
    case GgufType::kInt16:
      return Load<int16_t>(at);
    case GgufType::kUint32:
      return Load<uint32_t>(at);
    case GgufType::kInt32:
      return Load<int32_t>(at);
    default:
      return Load<int64_t>(at);
  }
}

Status Truncated() { return Status::InvalidArgument("truncated: the file ends within it"); }

// `count` values of `type`, the type and count of an array or a single one.
Status ReadElements(GgufType type, uint64_t count, int depth, ByteReader* reader,
                    GgufArray* array) {
  const size_t bytes_min = BytesMin(type);
  if (bytes_min == 0) {
    return Status::Unsupported("its type has number " +
                               std::to_string(static_cast<uint32_t>(type)) +
                               ", which GGUF does not know");
  }
  if (count > reader->left() / bytes_min) {
    return Status::InvalidArgument("truncated: it claims " + std::to_string(count) +
                                   " values of type " + GgufTypeName(type) + ", the file has " +
                                   std::to_string(reader->left()) + " bytes left");
  }
  const auto begin = reader->rest();
  if (type == GgufType::kString) {
    std::string_view text;
    for (uint64_t i = 0; i < count; ++i) {
      if (!reader->ReadString(&text)) return Truncated();
    }
  } else if (type == GgufType::kArray) {
    GgufArray inner;
    for (uint64_t i = 0; i < count; ++i) {
      PENSTOCK_RETURN_IF_ERROR(ReadGgufArray(depth, reader, &inner));
    }
  } else {
    std::span<const std::byte> bytes;
    if (!reader->Take(count * bytes_min, &bytes)) return Truncated();
    for (size_t i = 0; type == GgufType::kBool && i < bytes.size(); ++i) {
      if (std::to_integer<int>(bytes[i]) > 1) {
        return Status::InvalidArgument("a bool must be 0 or 1, but is " +
                                       std::to_string(std::to_integer<int>(bytes[i])));
      }
    }
  }
  *array = GgufArray(type, static_cast<size_t>(count), begin.first(begin.size() - reader->left()));
  return Status::Ok();
}

std::string KeyName(std::string_view key) { return "key '" + Shown(key) + "'"; }

Status Wrong(std::string_view key, const std::string& says) {
  return Status::InvalidArgument(KeyName(key) + " " + says, Shown(key));
}

std::string WhatItIs(const GgufValue& value) {
  const std::string name = GgufTypeName(value.data.type());
  if (value.is_array) return "an array of type " + name;
  return "of type " + name;
}

template <typename T>
std::string OutOfRange(T min, T max, const std::string& value) {
  return fmt::format("must be from {} to {}, but is {}", min, max, value);
}

// A view of an array, its error with the key that the array has.
template <typename View>
Expected<View> Named(std::string_view key, Expected<View> view) {
  if (!view.ok()) return Wrong(key, view.status().message());
  return view;
}

}  // namespace

const char* GgufTypeName(GgufType type) {
  static constexpr std::array<const char*, 13> kNames = {
      "uint8", "int8",   "uint16", "int16",  "uint32", "int32",  "float32",
      "bool",  "string", "array",  "uint64", "int64",  "float64"};
  const auto number = static_cast<uint32_t>(type);
  return number < kNames.size() ? kNames[number] : "?";
}

Status ReadGgufArray(int depth, ByteReader* reader, GgufArray* array) {
  if (depth == kGgufArrayDepthMax) {
    return Status::InvalidArgument("arrays lie in arrays more than " +
                                   std::to_string(kGgufArrayDepthMax) + " levels deep");
  }
  uint32_t type = 0;
  uint64_t count = 0;
  if (!reader->Read(&type) || !reader->Read(&count)) return Truncated();
  return ReadElements(static_cast<GgufType>(type), count, depth + 1, reader, array);
}

template <>
void GgufSequence<std::string_view>::Iterator::ReadNext() {
  if (rest_.ReadString(&now_)) return;
  now_ = {};
  rest_ = ByteReader({});
}

template <>
void GgufSequence<GgufArray>::Iterator::ReadNext() {
  if (ReadGgufArray(0, &rest_, &now_).ok()) return;
  now_ = {};
  rest_ = ByteReader({});
}

template <>
int64_t GgufNumbers<int64_t>::operator[](size_t i) const {
  return IntAt(type_, bytes_.data() + i * BytesMin(type_));
}

template <>
double GgufNumbers<double>::operator[](size_t i) const {
  const std::byte* at = bytes_.data() + i * BytesMin(type_);
  return type_ == GgufType::kFloat32 ? static_cast<double>(Load<float>(at)) : Load<double>(at);
}

template <>
bool GgufNumbers<bool>::operator[](size_t i) const {
  return std::to_integer<int>(bytes_[i]) != 0;
}

Expected<GgufStrings> GgufArray::Strings() const {
  if (type_ == GgufType::kString) return GgufStrings(bytes_, count_);
  return Status::InvalidArgument("must be an array of strings");
}

Expected<GgufArrays> GgufArray::Arrays() const {
  if (type_ == GgufType::kArray) return GgufArrays(bytes_, count_);
  return Status::InvalidArgument("must be an array of arrays");
}

Expected<GgufNumbers<int64_t>> GgufArray::Ints() const {
  if (!IsInteger(type_)) return Status::InvalidArgument("must be an array of integers");
  const GgufNumbers<int64_t> ints(type_, bytes_, count_);
  for (size_t i = 0; type_ == GgufType::kUint64 && i < count_; ++i) {
    if (ints[i] < 0) {
      return Status::InvalidArgument("must be an array of integers up to 2^63 - 1, but has " +
                                     std::to_string(static_cast<uint64_t>(ints[i])));
    }
  }
  return ints;
}

Expected<GgufNumbers<double>> GgufArray::Floats() const {
  if (IsFloat(type_)) return GgufNumbers<double>(type_, bytes_, count_);
  return Status::InvalidArgument("must be an array of floats");
}

Expected<GgufNumbers<bool>> GgufArray::Bools() const {
  if (type_ == GgufType::kBool) return GgufNumbers<bool>(type_, bytes_, count_);
  return Status::InvalidArgument("must be an array of bools");
}

Expected<GgufMetadata> GgufMetadata::Read(uint64_t count, ByteReader* reader) {
  if (count > kGgufKeysMax) {
    return Status::InvalidArgument("the header claims " + std::to_string(count) +
                                   " keys; at most " + std::to_string(kGgufKeysMax) +
                                   " are allowed");
  }
  if (count > reader->left() / kKeyBytesMin) {
    return Status::InvalidArgument("truncated: the header claims " + std::to_string(count) +
                                   " keys, the file has " + std::to_string(reader->left()) +
                                   " bytes after it");
  }
  GgufMetadata metadata;
  for (uint64_t i = 0; i < count; ++i) {
    std::string_view key;
    uint32_t type = 0;
    const std::string place = "key " + std::to_string(i + 1) + " of " + std::to_string(count);
    if (!reader->ReadString(&key)) return Truncated().Annotate(place);
    if (key.empty() || key.size() > kGgufKeyBytesMax) {
      return Status::InvalidArgument(place + " has " + std::to_string(key.size()) +
                                     " bytes; from 1 to " + std::to_string(kGgufKeyBytesMax) +
                                     " are allowed");
    }
    if (!reader->Read(&type)) return Truncated().Annotate(KeyName(key));
    GgufValue value;
    value.is_array = static_cast<GgufType>(type) == GgufType::kArray;
    const Status read = value.is_array
                            ? ReadGgufArray(0, reader, &value.data)
                            : ReadElements(static_cast<GgufType>(type), 1, 0, reader, &value.data);
    if (!read.ok()) return read.Annotate(KeyName(key));
    if (!metadata.values_.emplace(key, value).second) return Wrong(key, "is there twice");
  }
  return metadata;
}

Expected<const GgufValue*> GgufMetadata::Need(std::string_view key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return Wrong(key, "is missing");
  return &found->second;
}

// The value of `key`, which must not be an array; `wanted` is what the message asks for.
Expected<GgufArray> GgufMetadata::Scalar(std::string_view key, std::string_view wanted) const {
  PENSTOCK_ASSIGN_OR_RETURN(const GgufValue* value, Need(key));
  if (!value->is_array) return value->data;
  return Wrong(key, "must be " + std::string(wanted) + ", but is " + WhatItIs(*value));
}

Expected<int64_t> GgufMetadata::GetInt(std::string_view key, int64_t min, int64_t max) const {
  const std::string wanted = min >= 0 ? "an unsigned integer" : "an integer";
  PENSTOCK_ASSIGN_OR_RETURN(const GgufArray data, Scalar(key, wanted));
  if (!IsInteger(data.type())) {
    return Wrong(key, "must be " + wanted + ", but is " + WhatItIs({false, data}));
  }
  const int64_t value = IntAt(data.type(), data.bytes().data());
  const bool above = data.type() == GgufType::kUint64 && value < 0;
  if (!above && value >= min && value <= max) return value;
  return Wrong(key, OutOfRange(min, max,
                               above ? std::to_string(static_cast<uint64_t>(value))
                                     : std::to_string(value)));
}

Expected<int64_t> GgufMetadata::GetIntOr(std::string_view key, int64_t absent, int64_t min,
                                         int64_t max) const {
  if (!Has(key)) return absent;
  return GetInt(key, min, max);
}

Expected<double> GgufMetadata::GetFloat(std::string_view key, double min, double max) const {
  PENSTOCK_ASSIGN_OR_RETURN(const GgufArray data, Scalar(key, "a float"));
  if (!IsFloat(data.type())) {
    return Wrong(key, "must be a float, but is " + WhatItIs({false, data}));
  }
  const double value = GgufNumbers<double>(data.type(), data.bytes(), 1)[0];
  if (value >= min && value <= max) return value;
  return Wrong(key, OutOfRange(min, max, fmt::format("{}", value)));
}

Expected<double> GgufMetadata::GetFloatOr(std::string_view key, double absent, double min,
                                          double max) const {
  if (!Has(key)) return absent;
  return GetFloat(key, min, max);
}

Expected<bool> GgufMetadata::GetBool(std::string_view key) const {
  PENSTOCK_ASSIGN_OR_RETURN(const GgufArray data, Scalar(key, "a bool"));
  if (data.type() == GgufType::kBool) return std::to_integer<int>(data.bytes()[0]) != 0;
  return Wrong(key, "must be a bool, but is " + WhatItIs({false, data}));
}

Expected<bool> GgufMetadata::GetBoolOr(std::string_view key, bool absent) const {
  if (!Has(key)) return absent;
  return GetBool(key);
}

Expected<std::string_view> GgufMetadata::GetString(std::string_view key) const {
  PENSTOCK_ASSIGN_OR_RETURN(const GgufArray data, Scalar(key, "a string"));
  if (data.type() == GgufType::kString) return *GgufStrings(data.bytes(), 1).begin();
  return Wrong(key, "must be a string, but is " + WhatItIs({false, data}));
}

Expected<std::string_view> GgufMetadata::GetStringOr(std::string_view key,
                                                     std::string_view absent) const {
  if (!Has(key)) return absent;
  return GetString(key);
}

Expected<GgufArray> GgufMetadata::GetArray(std::string_view key) const {
  PENSTOCK_ASSIGN_OR_RETURN(const GgufValue* value, Need(key));
  if (value->is_array) return value->data;
  return Wrong(key, "must be an array, but is " + WhatItIs(*value));
}

Expected<GgufStrings> GgufMetadata::GetStrings(std::string_view key) const {
  PENSTOCK_ASSIGN_OR_RETURN(const GgufArray array, GetArray(key));
  return Named(key, array.Strings());
}

Expected<GgufNumbers<int64_t>> GgufMetadata::GetInts(std::string_view key) const {
  PENSTOCK_ASSIGN_OR_RETURN(const GgufArray array, GetArray(key));
  return Named(key, array.Ints());
}

Expected<GgufNumbers<double>> GgufMetadata::GetFloats(std::string_view key) const {
  PENSTOCK_ASSIGN_OR_RETURN(const GgufArray array, GetArray(key));
  return Named(key, array.Floats());
}

Expected<GgufNumbers<bool>> GgufMetadata::GetBools(std::string_view key) const {
  PENSTOCK_ASSIGN_OR_RETURN(const GgufArray array, GetArray(key));
  return Named(key, array.Bools());
}

}  // namespace penstock::files
