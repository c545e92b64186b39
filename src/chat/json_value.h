// JsonValue: a JSON value as a tree that owns its texts and keeps the order of keys: what routes
// hand to a chat template. Parsed by simdjson, printed by JsonWriter. Any thread; a const tree may
// be read by many.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"

namespace penstock {
class HeldMemory;
class JsonElement;
class JsonWriter;
struct RequestContext;
}  // namespace penstock

namespace penstock::chat {

class JsonValue {
 public:
  using Array = std::vector<JsonValue>;
  using Member = std::pair<std::string, JsonValue>;
  using Object = std::vector<Member>;
  // Levels of arrays and objects that Parse accepts.
  static constexpr size_t kDepthMax = 64;

  JsonValue() = default;  // null
  // Not the variant's own copy: where that runs out of memory, libstdc++ 12 destroys what was not
  // made.
  JsonValue(const JsonValue& other) { value_ = other.value_; }
  JsonValue(JsonValue&&) noexcept = default;
  JsonValue& operator=(const JsonValue&) = default;
  JsonValue& operator=(JsonValue&&) noexcept = default;
  ~JsonValue() = default;
  JsonValue(std::nullptr_t) {}
  JsonValue(bool truth) : value_(truth) {}
  JsonValue(int number) : value_(int64_t{number}) {}
  JsonValue(int64_t number) : value_(number) {}
  JsonValue(double number) : value_(number) {}
  JsonValue(std::string text) : value_(std::move(text)) {}
  JsonValue(std::string_view text) : value_(std::string(text)) {}
  JsonValue(const char* text) : value_(std::string(text)) {}
  JsonValue(Array items) : value_(std::move(items)) {}
  JsonValue(Object members) : value_(std::move(members)) {}

  // What the making of a tree may take; by default, what its text asks for.
  struct Limits {
    const char* field = "";                   // the value's name, for errors
    size_t members_max = SIZE_MAX;            // of each object
    const RequestContext* context = nullptr;  // asked every kValuesPerLook values; null: wanted
    HeldMemory* memory = nullptr;  // takes what the tree takes, before it is made; null: uncounted
  };
  static constexpr size_t kValuesPerLook = 1024;

  // A copy of a value of a document. kUnprocessable: an object has too many members. Else errors
  // are those of the limits: of memory, or RequestContext::CheckWanted. If a key is written twice
  // the last value counts, at the place of the first, as Python's dict has it.
  static Expected<JsonValue> Copy(JsonElement value, const Limits& limits);
  // The same of a text. kInvalidArgument: not JSON, not UTF-8, or nested deeper than kDepthMax.
  // Integers beyond 64 bits become doubles.
  static Expected<JsonValue> Parse(std::string_view text, const Limits& limits);
  static Expected<JsonValue> Parse(std::string_view text) { return Parse(text, Limits()); }

  bool is_null() const { return std::holds_alternative<std::monostate>(value_); }
  // The value, or nullptr where it has another type. A number is either an integer or a double.
  const bool* boolean() const { return std::get_if<bool>(&value_); }
  const int64_t* integer() const { return std::get_if<int64_t>(&value_); }
  const double* number() const { return std::get_if<double>(&value_); }
  const std::string* string() const { return std::get_if<std::string>(&value_); }
  const Array* array() const { return std::get_if<Array>(&value_); }
  const Object* object() const { return std::get_if<Object>(&value_); }
  std::string* string() { return std::get_if<std::string>(&value_); }
  Array* array() { return std::get_if<Array>(&value_); }
  Object* object() { return std::get_if<Object>(&value_); }

  // The member of an object; nullptr if there is none, or if this is not an object.
  const JsonValue* Find(std::string_view key) const;
  JsonValue* Find(std::string_view key);
  // Sets or adds a member; a value that is not an object becomes one.
  void Set(std::string_view key, JsonValue value);

  void Write(JsonWriter* json) const;
  std::string Print() const;

 private:
  std::variant<std::monostate, bool, int64_t, double, std::string, Array, Object> value_;
};

}  // namespace penstock::chat
