// JSON in: a parsed document and typed getters whose errors name the field and the limit. JSON out
// is json/json_writer.h, included here for convenience. The parser is simdjson's DOM; it stays in
// json.cc, because its header costs every file that includes it a second of compiling.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "json/json_writer.h"

namespace penstock {

class JsonArray;
class JsonObject;

enum class JsonType { kMissing, kNull, kBool, kInt64, kUint64, kDouble, kString, kArray, kObject };

// A value inside a JsonDocument, which must outlive it; 16 bytes, copied freely. A default one is
// missing: it has no type, and every Get() of it is false.
class JsonElement {
 public:
  JsonElement() = default;

  JsonType type() const;
  bool missing() const { return place_.document == nullptr; }
  bool is_null() const { return type() == JsonType::kNull; }
  // An integer, signed or unsigned, in 64 bits.
  bool is_integer() const { return type() == JsonType::kInt64 || type() == JsonType::kUint64; }
  bool is_number() const { return is_integer() || type() == JsonType::kDouble; }
  bool is_string() const { return type() == JsonType::kString; }
  bool is_array() const { return type() == JsonType::kArray; }
  bool is_object() const { return type() == JsonType::kObject; }

  // True and *out set if the value is of that type; otherwise *out stays as it is. Integers are
  // read from integers that fit, doubles from every number.
  bool Get(bool* out) const;
  bool Get(int64_t* out) const;
  bool Get(uint64_t* out) const;
  bool Get(double* out) const;
  bool Get(std::string_view* out) const;  // lives as long as the document
  bool Get(std::string* out) const;
  bool Get(JsonArray* out) const;
  bool Get(JsonObject* out) const;

  // A member of an object, null included; missing if there is none, or if this is not an object.
  JsonElement operator[](std::string_view key) const;

  // The value as JSON without spaces; empty if it is missing.
  std::string Text() const;

 private:
  friend class JsonArray;
  friend class JsonObject;
  friend class JsonDocument;
  friend struct JsonDom;

  // simdjson's own reference to a place on its tape (json.cc checks that the two are alike).
  struct Place {
    const void* document = nullptr;
    size_t index = 0;
    bool operator==(const Place&) const = default;
  };
  explicit JsonElement(Place place) : place_(place) {}

  Place place_;
};

// An array inside a JsonDocument. A default one is empty.
class JsonArray {
 public:
  class Iterator {
   public:
    JsonElement operator*() const { return at_; }
    Iterator& operator++();
    bool operator==(const Iterator& other) const { return at_.place_ == other.at_.place_; }

   private:
    friend class JsonArray;
    explicit Iterator(JsonElement at) : at_(at) {}
    JsonElement at_;
  };

  JsonArray() = default;
  Iterator begin() const;
  Iterator end() const;
  // The number of elements, but at most 2^24 - 1: the parser's count saturates there.
  size_t size() const;
  bool empty() const { return begin() == end(); }
  // Missing if there are fewer elements. Walks over those before.
  JsonElement operator[](size_t index) const;

 private:
  friend class JsonElement;
  friend struct JsonDom;
  JsonElement::Place place_;
};

struct JsonField {
  std::string_view key;
  JsonElement value;
};

// A JSON object inside a JsonDocument, which must outlive it. `path` is its place in the document
// ("", "rope_parameters", "items[3]") and goes into messages and Status::field().
//
// A field whose value is null counts as absent. If a key is written twice the first counts.
// Get...() requires the field, Get...Or() returns the default where it is absent; both give
// kInvalidArgument, field named, where the value has another type or lies outside [min, max].
class JsonObject {
 public:
  // The fields in the order of the text.
  class Iterator {
   public:
    JsonField operator*() const;
    Iterator& operator++();
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    friend class JsonObject;
    explicit Iterator(JsonElement::Place at) : at_(at) {}
    JsonElement::Place at_;  // of the key
  };

  JsonObject() = default;  // as {}
  JsonObject(JsonObject object, std::string path) : JsonObject(std::move(object)) {
    path_ = std::move(path);
  }

  Iterator begin() const;
  Iterator end() const;
  bool empty() const { return begin() == end(); }
  // The number of fields, but at most 2^24 - 1.
  size_t size() const;
  // The value, null included; missing if there is none.
  JsonElement operator[](std::string_view key) const;

  bool Has(std::string_view key) const;
  // The value, or nothing where the field is absent or null.
  std::optional<JsonElement> Find(std::string_view key) const;

  Expected<int64_t> GetInt(std::string_view key, int64_t min, int64_t max) const;
  Expected<int64_t> GetIntOr(std::string_view key, int64_t absent, int64_t min, int64_t max) const;
  Expected<double> GetNumber(std::string_view key,
                             double min = std::numeric_limits<double>::lowest(),
                             double max = std::numeric_limits<double>::max()) const;
  Expected<double> GetNumberOr(std::string_view key, double absent,
                               double min = std::numeric_limits<double>::lowest(),
                               double max = std::numeric_limits<double>::max()) const;
  Expected<bool> GetBool(std::string_view key) const;
  Expected<bool> GetBoolOr(std::string_view key, bool absent) const;
  // A string of at most bytes_max bytes.
  Expected<std::string> GetString(std::string_view key, size_t bytes_max = kNoLimit) const;
  Expected<std::string> GetStringOr(std::string_view key, std::string_view absent,
                                    size_t bytes_max = kNoLimit) const;
  Expected<JsonObject> GetObject(std::string_view key) const;
  Expected<JsonObject> GetObjectOrEmpty(std::string_view key) const;
  Expected<JsonArray> GetArray(std::string_view key, size_t size_max = kNoLimit) const;
  // Absent = empty.
  Expected<std::vector<std::string>> GetStringsOrEmpty(std::string_view key,
                                                       size_t size_max = kNoLimit) const;
  Expected<std::map<std::string, std::string>> GetStringMapOrEmpty(std::string_view key) const;

  // Calls visit(std::string_view key, JsonElement value) in the order of the text.
  template <typename Visit>
  void ForEach(Visit&& visit) const {
    for (const JsonField field : *this) visit(field.key, field.value);
  }

  const std::string& path() const { return path_; }
  // "rope_parameters.rope_theta".
  std::string PathOf(std::string_view key) const;

  static constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();

 private:
  Expected<JsonElement> Need(std::string_view key) const;
  Status WrongType(std::string_view key, std::string_view wanted, JsonElement value) const;
  Expected<int64_t> IntOf(std::string_view key, JsonElement value, int64_t min, int64_t max) const;
  Expected<double> NumberOf(std::string_view key, JsonElement value, double min, double max) const;
  Expected<bool> BoolOf(std::string_view key, JsonElement value) const;
  Expected<std::string> StringOf(std::string_view key, JsonElement value, size_t bytes_max) const;

  friend class JsonElement;
  friend struct JsonDom;

  JsonElement::Place place_;
  std::string path_;
};

// A parsed text; owns what its elements and strings point into. Moving keeps them valid.
class JsonDocument {
 public:
  static constexpr size_t kDepthMax = 64;

  // `text` need not be padded and may go after the call. kInvalidArgument: not JSON, not UTF-8, or
  // nested deeper than kDepthMax; kPayloadTooLarge: more than bytes_max bytes. Integers beyond 64
  // bits, which Python writes (model_max_length: 10^30), are read as doubles.
  static Expected<JsonDocument> Parse(std::string_view text,
                                      size_t bytes_max = JsonObject::kNoLimit);
  // Reads a whole file; messages begin with its path. kNotFound if there is none.
  static Expected<JsonDocument> ParseFile(const std::string& path, size_t bytes_max);

  JsonDocument(JsonDocument&&) noexcept;
  JsonDocument& operator=(JsonDocument&&) noexcept;
  ~JsonDocument();

  JsonElement root() const { return root_; }
  // The root, which must be an object.
  Expected<JsonObject> Object() const;

 private:
  struct Tape;
  JsonDocument();
  std::unique_ptr<Tape> tape_;  // elements point at it, so it may not move
  JsonElement root_;
};

// "null", "bool", "number", "string", "array", "object".
const char* JsonTypeName(JsonElement value);

}  // namespace penstock
