// JsonWriter: JSON written straight into a std::string, no tree in between. The caller owns the
// string and may reserve it; the writer only appends. Any thread; one writer is not shared.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace penstock {

// Use: JsonWriter w(&out); w.BeginObject().Field("id", 3).Key("xs").Floats(xs).EndObject();
// The writer places commas; the caller must match Begin and End.
class JsonWriter {
 public:
  explicit JsonWriter(std::string* out) : out_(*out) {}

  JsonWriter& BeginObject() { return Open('{'); }
  JsonWriter& EndObject() { return Close('}'); }
  JsonWriter& BeginArray() { return Open('['); }
  JsonWriter& EndArray() { return Close(']'); }
  JsonWriter& Key(std::string_view key);

  // Escapes what JSON demands. Bytes that are not UTF-8 become U+FFFD, so the text stays valid.
  JsonWriter& String(std::string_view text);
  JsonWriter& Int(int64_t number);
  JsonWriter& Uint(uint64_t number);
  // The fewest digits that read back as the same number; always with a '.' or an exponent. NaN and
  // infinities, which JSON lacks, become null.
  JsonWriter& Double(double number);
  JsonWriter& Float(float number);
  JsonWriter& Bool(bool truth);
  JsonWriter& Null();
  // Text that is JSON already: one complete value.
  JsonWriter& Raw(std::string_view json);
  // [x0,x1,...]
  JsonWriter& Floats(std::span<const float> numbers);
  JsonWriter& Ints(std::span<const int32_t> numbers);

  JsonWriter& Value(std::string_view text) { return String(text); }
  JsonWriter& Value(const std::string& text) { return String(text); }
  JsonWriter& Value(const char* text) { return String(text); }
  JsonWriter& Value(std::same_as<bool> auto truth) { return Bool(truth); }
  JsonWriter& Value(float number) { return Float(number); }
  JsonWriter& Value(double number) { return Double(number); }
  template <std::integral T>
  requires(!std::same_as<T, bool>) JsonWriter& Value(T number) {
    if constexpr (std::is_signed_v<T>) {
      return Int(number);
    } else {
      return Uint(number);
    }
  }
  JsonWriter& Value(std::span<const float> numbers) { return Floats(numbers); }

  // Key and value in one.
  template <typename T>
  JsonWriter& Field(std::string_view key, const T& value) {
    Key(key);
    return Value(value);
  }

 private:
  JsonWriter& Open(char bracket);
  JsonWriter& Close(char bracket);
  void Separate();

  std::string& out_;
  bool need_comma_ = false;
};

// Appends `text` as a quoted JSON string.
void AppendJsonString(std::string_view text, std::string* out);

}  // namespace penstock
