#include "dialects/kserve/tensor_json.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/utf8_check.h"
#include "json/json_writer.h"
#include "signature/tensor_spec.h"

namespace penstock::dialects {
namespace {

constexpr size_t kLengthBytes = 4;  // before each element of BYTES

bool IsHalf(signature::ElementType type) {
  return type == signature::ElementType::kFp16 || type == signature::ElementType::kBf16;
}

Status WrongShape(std::span<const int64_t> shape) {
  return Status::InvalidArgument(
      fmt::format("'data' must hold all elements of the shape {}, flat or nested as the shape is",
                  signature::ShapeText(shape)),
      "data");
}

Status WrongElement(size_t index, std::string_view wanted) {
  return Status::InvalidArgument(
      fmt::format("'data' must hold {}; element {} is something else", wanted, index), "data");
}

// Calls leaf(index, element) for each of `count` elements.
template <typename Leaf>
class Walk {
 public:
  Walk(std::span<const int64_t> shape, uint64_t count, Leaf leaf)
      : shape_(shape), count_(count), leaf_(std::move(leaf)) {}

  Status All(JsonArray data) {
    const bool nested =
        shape_.size() > 1 && data.begin() != data.end() && (*data.begin()).is_array();
    PENSTOCK_RETURN_IF_ERROR(nested ? Nested(data, 0) : Flat(data, count_));
    return done_ == count_ ? Status::Ok() : WrongShape(shape_);
  }

 private:
  Status Flat(JsonArray data, uint64_t wanted) {
    uint64_t seen = 0;
    for (const JsonElement item : data) {
      if (seen++ == wanted || done_ == count_ || item.is_array()) return WrongShape(shape_);
      PENSTOCK_RETURN_IF_ERROR(leaf_(done_, item));
      ++done_;
    }
    return seen == wanted ? Status::Ok() : WrongShape(shape_);
  }

  Status Nested(JsonArray data, size_t dimension) {
    const auto wanted = static_cast<uint64_t>(shape_[dimension]);
    if (dimension + 1 == shape_.size()) return Flat(data, wanted);
    uint64_t seen = 0;
    for (const JsonElement item : data) {
      JsonArray inner;
      if (seen++ == wanted || !item.Get(&inner)) return WrongShape(shape_);
      PENSTOCK_RETURN_IF_ERROR(Nested(inner, dimension + 1));
    }
    return seen == wanted ? Status::Ok() : WrongShape(shape_);
  }

  const std::span<const int64_t> shape_;
  const uint64_t count_;
  uint64_t done_ = 0;
  Leaf leaf_;
};

template <typename Leaf>
Status ForEach(JsonArray data, std::span<const int64_t> shape, uint64_t count, Leaf leaf) {
  return Walk<Leaf>(shape, count, std::move(leaf)).All(data);
}

template <typename T>
bool Read(JsonElement item, T* value) {
  if constexpr (std::is_same_v<T, bool>) {
    return item.Get(&*value);
  } else if constexpr (std::is_floating_point_v<T>) {
    double number = 0;
    if (!item.Get(&number)) return false;
    if (std::abs(number) > std::numeric_limits<T>::max()) return false;
    *value = static_cast<T>(number);
    return true;
  } else if constexpr (std::is_signed_v<T>) {
    int64_t number = 0;
    if (!item.Get(&number)) return false;
    *value = static_cast<T>(number);
    return *value == number;
  } else {
    uint64_t number = 0;
    if (!item.Get(&number)) return false;
    *value = static_cast<T>(number);
    return *value == number;
  }
}

template <typename T>
std::string Wanted(signature::ElementType type) {
  if constexpr (std::is_same_v<T, bool>) {
    return "true and false, as the type BOOL has them";
  } else if constexpr (std::is_floating_point_v<T>) {
    return fmt::format("numbers of the type {}, at most {:.3g} in size",
                       signature::ElementTypeName(type), std::numeric_limits<T>::max());
  } else {
    return fmt::format("integers of the type {}, from {} to {}", signature::ElementTypeName(type),
                       +std::numeric_limits<T>::min(), +std::numeric_limits<T>::max());
  }
}

Expected<TensorBytes> Allocate(uint64_t bytes, RequestMemory* memory) {
  if (memory != nullptr) {
    PENSTOCK_RETURN_IF_ERROR(memory->Take(static_cast<int64_t>(bytes)));
  }
  TensorBytes made;
  made.data = std::make_unique_for_overwrite<std::byte[]>(bytes);
  made.size = bytes;
  return made;
}

template <typename T>
Expected<TensorBytes> ReadNumbers(JsonArray data, signature::ElementType type,
                                  std::span<const int64_t> shape, uint64_t count,
                                  RequestMemory* memory) {
  PENSTOCK_ASSIGN_OR_RETURN(TensorBytes made, Allocate(count * sizeof(T), memory));
  std::byte* const out = made.data.get();
  PENSTOCK_RETURN_IF_ERROR(
      ForEach(data, shape, count, [&](size_t index, JsonElement item) -> Status {
        T value{};
        if (!Read(item, &value)) return WrongElement(index, Wanted<T>(type));
        std::memcpy(out + index * sizeof(T), &value, sizeof(T));
        return Status::Ok();
      }));
  return made;
}

Expected<TensorBytes> ReadStrings(JsonArray data, std::span<const int64_t> shape, uint64_t count,
                                  RequestMemory* memory) {
  uint64_t bytes = 0;
  PENSTOCK_RETURN_IF_ERROR(
      ForEach(data, shape, count, [&](size_t index, JsonElement item) -> Status {
        std::string_view text;
        if (!item.Get(&text)) return WrongElement(index, "strings");
        bytes += kLengthBytes + text.size();
        return Status::Ok();
      }));
  PENSTOCK_ASSIGN_OR_RETURN(TensorBytes made, Allocate(bytes, memory));
  std::byte* out = made.data.get();
  PENSTOCK_RETURN_IF_ERROR(ForEach(data, shape, count, [&](size_t, JsonElement item) -> Status {
    std::string_view text;
    item.Get(&text);
    const auto length = static_cast<uint32_t>(text.size());
    std::memcpy(out, &length, kLengthBytes);
    std::memcpy(out + kLengthBytes, text.data(), text.size());
    out += kLengthBytes + text.size();
    return Status::Ok();
  }));
  return made;
}

// Calls visit(text) for each element of BYTES; false: it stopped, or a length is over the rest.
template <typename Visit>
bool ForEachString(std::span<const std::byte> bytes, Visit visit) {
  while (!bytes.empty()) {
    uint32_t length = 0;
    if (bytes.size() < kLengthBytes) return false;
    std::memcpy(&length, bytes.data(), kLengthBytes);
    bytes = bytes.subspan(kLengthBytes);
    if (bytes.size() < length) return false;
    if (!visit(std::string_view(reinterpret_cast<const char*>(bytes.data()), length))) return false;
    bytes = bytes.subspan(length);
  }
  return true;
}

constexpr uint64_t kFloatTailBytes = 3;  // ".0,"

// The longest text of a number, with its comma.
template <typename T>
constexpr uint64_t NumberBytesMax() {
  if constexpr (std::is_same_v<T, bool>) {
    return 6;
  } else if constexpr (std::is_same_v<T, float>) {
    return 15 + kFloatTailBytes;  // "-1.17549435e-38"
  } else if constexpr (std::is_same_v<T, double>) {
    return 24 + kFloatTailBytes;  // "-2.2250738585072014e-308"
  } else {
    return std::numeric_limits<T>::digits10 + 3;  // two more than digits10, the sign among them
  }
}

template <typename T>
char* PrintNumber(T number, char* out) {
  if constexpr (std::is_same_v<T, bool>) {
    const std::string_view text = number ? "true" : "false";
    return std::copy(text.begin(), text.end(), out);
  } else {
    if constexpr (std::is_floating_point_v<T>) {
      if (!std::isfinite(number)) [[unlikely]] {
        const std::string_view text = std::isnan(number) ? "NaN"
                                      : number > 0       ? "Infinity"
                                                         : "-Infinity";
        return std::copy(text.begin(), text.end(), out);
      }
    }
    char* const end = std::to_chars(out, out + NumberBytesMax<T>(), number).ptr;
    if constexpr (std::is_floating_point_v<T>) {
      // A typed client reads "1" as an integer.
      for (const char* c = out; c != end; ++c) {
        if (*c == '.' || *c == 'e') return end;
      }
      end[0] = '.';
      end[1] = '0';
      return end + 2;
    }
    return end;
  }
}

template <typename T>
void AppendNumbers(std::span<const std::byte> bytes, std::string* out) {
  const size_t at = out->size();
  out->resize(at + 2 + bytes.size() / sizeof(T) * NumberBytesMax<T>());
  char* to = out->data() + at;
  *to++ = '[';
  const char* const begin = to;
  for (; bytes.size() >= sizeof(T); bytes = bytes.subspan(sizeof(T))) {
    T number;
    if constexpr (std::is_same_v<T, bool>) {
      number = bytes[0] != std::byte{0};
    } else {
      std::memcpy(&number, bytes.data(), sizeof(T));
    }
    to = PrintNumber(number, to);
    *to++ = ',';
  }
  if (to != begin) --to;
  *to++ = ']';
  out->resize(static_cast<size_t>(to - out->data()));
}

}  // namespace

Expected<TensorBytes> ReadTensorJson(JsonElement data, signature::ElementType type,
                                     std::span<const int64_t> shape, size_t json_bytes,
                                     RequestMemory* memory) {
  if (IsHalf(type)) {
    return Status::InvalidArgument(fmt::format("'data' cannot hold {}: send it as binary data",
                                               signature::ElementTypeName(type)),
                                   "data");
  }
  JsonArray items;
  if (!data.Get(&items)) {
    return Status::InvalidArgument("'data' must be an array", "data");
  }
  const std::optional<uint64_t> count = signature::ElementCount(shape);
  // An element takes a character at least: no more memory than that is worth is taken.
  if (!count || *count > json_bytes) return WrongShape(shape);
  if (type == signature::ElementType::kBytes) return ReadStrings(items, shape, *count, memory);
  return VisitElementType(type, [&](auto element_of) {
    return ReadNumbers<decltype(element_of)>(items, type, shape, *count, memory);
  });
}

Status CheckPrintable(signature::ElementType type, std::span<const std::byte> bytes) {
  if (IsHalf(type)) {
    return Status::Unsupported(fmt::format("{} cannot be sent as JSON: ask for binary data",
                                           signature::ElementTypeName(type)));
  }
  if (type != signature::ElementType::kBytes) return Status::Ok();
  const bool clean = ForEachString(bytes, [](std::string_view text) { return IsValidUtf8(text); });
  if (clean) return Status::Ok();
  return {StatusCode::kUnprocessable,
          "elements that are not UTF-8 cannot be sent as JSON: ask for binary data"};
}

void AppendTensorJson(signature::ElementType type, std::span<const std::byte> bytes,
                      std::string* out) {
  if (type == signature::ElementType::kBytes) {
    JsonWriter json(out);
    json.BeginArray();
    ForEachString(bytes, [&](std::string_view text) {
      json.String(text);
      return true;
    });
    json.EndArray();
    return;
  }
  VisitElementType(type, [&](auto element_of) { AppendNumbers<decltype(element_of)>(bytes, out); });
}

uint64_t TensorJsonBytesMax(signature::ElementType type, std::span<const std::byte> bytes) {
  constexpr uint64_t kEscapeBytesMax = 6;  // "\u0000"
  if (type == signature::ElementType::kBytes) return 2 + bytes.size() * kEscapeBytesMax;
  return VisitElementType(type, [&](auto element_of) {
    return 2 + bytes.size() / sizeof(element_of) * NumberBytesMax<decltype(element_of)>();
  });
}

}  // namespace penstock::dialects
