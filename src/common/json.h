// JSON in: a parsed document (simdjson DOM) and typed getters whose errors name the field and the
// limit. JSON out is common/json_writer.h, included here for convenience.
#pragma once

#include <simdjson.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/json_writer.h"
#include "common/status.h"

namespace penstock {

// A JSON object inside a JsonDocument, which must outlive it. `path` is its place in the document
// ("", "rope_parameters", "items[3]") and goes into messages and Status::field().
//
// A field whose value is null counts as absent. Of a key written twice the first counts. Get...()
// requires the field, Get...Or() returns the default where it is absent; both give
// kInvalidArgument, field named, where the value has another type or lies outside [min, max].
class JsonObject {
 public:
  JsonObject() = default;  // as {}
  explicit JsonObject(simdjson::dom::object object, std::string path = {})
      : object_(object), path_(std::move(path)) {}

  bool Has(std::string_view key) const;
  // The value, or nothing where the field is absent or null.
  std::optional<simdjson::dom::element> Find(std::string_view key) const;

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
  Expected<simdjson::dom::array> GetArray(std::string_view key, size_t size_max = kNoLimit) const;
  // Absent = empty.
  Expected<std::vector<std::string>> GetStringsOrEmpty(std::string_view key,
                                                       size_t size_max = kNoLimit) const;
  Expected<std::map<std::string, std::string>> GetStringMapOrEmpty(std::string_view key) const;

  // Calls visit(std::string_view key, simdjson::dom::element value) in the order of the text.
  template <typename Visit>
  void ForEach(Visit&& visit) const {
    if (!object_) return;
    for (const auto field : *object_) visit(field.key, field.value);
  }

  const std::string& path() const { return path_; }
  // "rope_parameters.rope_theta".
  std::string PathOf(std::string_view key) const;

  static constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();

 private:
  Expected<simdjson::dom::element> Need(std::string_view key) const;
  Status WrongType(std::string_view key, std::string_view wanted,
                   simdjson::dom::element value) const;
  Expected<int64_t> IntOf(std::string_view key, simdjson::dom::element value, int64_t min,
                          int64_t max) const;
  Expected<double> NumberOf(std::string_view key, simdjson::dom::element value, double min,
                            double max) const;
  Expected<bool> BoolOf(std::string_view key, simdjson::dom::element value) const;
  Expected<std::string> StringOf(std::string_view key, simdjson::dom::element value,
                                 size_t bytes_max) const;

  std::optional<simdjson::dom::object> object_;
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

  simdjson::dom::element root() const { return root_; }
  // The root, which must be an object.
  Expected<JsonObject> Object() const;

 private:
  JsonDocument() = default;
  std::unique_ptr<simdjson::dom::document> tape_;  // elements point at it, so it may not move
  simdjson::dom::element root_;
};

// "null", "bool", "number", "string", "array", "object".
const char* JsonTypeName(simdjson::dom::element value);

}  // namespace penstock
