#include "common/json.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>

#include "common/regular_file.h"

namespace penstock {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

// Larger parsers are not kept for the thread's next text.
constexpr size_t kKeptParserBytesMax = 1 << 20;

// simdjson selects its code for this processor at first use, inside functions that may not throw;
// selecting it here keeps that from allocating later.
[[maybe_unused]] const auto kChosenHere = simdjson::get_active_implementation() -> name();

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Appends an exponent to integers of 19 digits and more, outside strings, so that they are read
// as doubles. (simdjson refuses integers that do not fit 64 bits.)
std::string WithBigIntegersAsDoubles(std::string_view text) {
  constexpr size_t kDigitsMax = 18;
  std::string out;
  out.reserve(text.size() + 64);
  bool in_string = false;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (in_string) {
      const size_t step = c == '\\' && i + 1 < text.size() ? 2 : 1;
      in_string = c != '"';
      out += text.substr(i, step);
      i += step;
      continue;
    }
    in_string = c == '"';
    if (!IsDigit(c)) {
      out.push_back(c);
      ++i;
      continue;
    }
    // A whole number token, so that the digits of a fraction or an exponent are not counted.
    size_t end = i;
    bool integer = true;
    for (; end < text.size(); ++end) {
      const char d = text[end];
      if (IsDigit(d)) continue;
      if (d != '.' && d != 'e' && d != 'E' && d != '+' && d != '-') break;
      integer = false;
    }
    out += text.substr(i, end - i);
    if (integer && end - i > kDigitsMax) out += "e0";
    i = end;
  }
  return out;
}

// A parser, and the bytes it reads: a text and zeros behind it. Where brackets are left open,
// simdjson (3.0.1) also takes bytes behind the text for brackets, and each makes an element of the
// tape, which has no room for more than the text's. In its own copy they would be of an earlier
// text.
class TextParser {
 public:
  simdjson::error_code Parse(std::string_view text, simdjson::dom::document& tape, element* root) {
    if (parser_.capacity() < text.size() || parser_.max_depth() != JsonDocument::kDepthMax) {
      if (const auto error =
              parser_.allocate(std::max<size_t>(text.size(), 1024), JsonDocument::kDepthMax)) {
        return error;
      }
    }
    if (bytes_ == nullptr || capacity_ < text.size()) {
      capacity_ = parser_.capacity();
      bytes_.reset(new (std::nothrow) char[capacity_ + simdjson::SIMDJSON_PADDING]);
      if (bytes_ == nullptr) return simdjson::MEMALLOC;
    }
    std::copy(text.begin(), text.end(), bytes_.get());
    std::fill_n(bytes_.get() + text.size(), simdjson::SIMDJSON_PADDING, '\0');
    return parser_.parse_into_document(tape, bytes_.get(), text.size(), false).get(*root);
  }

 private:
  simdjson::dom::parser parser_;
  std::unique_ptr<char[]> bytes_;
  size_t capacity_ = 0;  // of bytes_, without the zeros
};

simdjson::error_code ParseOnce(std::string_view text, simdjson::dom::document& tape,
                               element* root) {
  if (text.size() <= kKeptParserBytesMax) {
    thread_local TextParser kept;
    return kept.Parse(text, tape, root);
  }
  TextParser parser;
  return parser.Parse(text, tape, root);
}

std::string Bounds(const std::string& min, const std::string& max) {
  return "between " + min + " and " + max;
}

std::string NumberText(double number) {
  std::string text;
  JsonWriter(&text).Double(number);
  return text;
}

}  // namespace

const char* JsonTypeName(element value) {
  switch (value.type()) {
    case element_type::ARRAY:
      return "array";
    case element_type::OBJECT:
      return "object";
    case element_type::INT64:
    case element_type::UINT64:
    case element_type::DOUBLE:
      return "number";
    case element_type::STRING:
      return "string";
    case element_type::BOOL:
      return "bool";
    case element_type::NULL_VALUE:
      return "null";
  }
  return "?";
}

// ---- JsonObject

std::string JsonObject::PathOf(std::string_view key) const {
  if (path_.empty()) return std::string(key);
  return path_ + "." + std::string(key);
}

std::optional<element> JsonObject::Find(std::string_view key) const {
  element value;
  if (!object_ || object_->at_key(key).get(value) != simdjson::SUCCESS || value.is_null()) {
    return std::nullopt;
  }
  return value;
}

bool JsonObject::Has(std::string_view key) const { return Find(key).has_value(); }

Expected<element> JsonObject::Need(std::string_view key) const {
  if (const auto value = Find(key)) return *value;
  const std::string name = PathOf(key);
  return Status::InvalidArgument("'" + name + "' is missing", name);
}

Status JsonObject::WrongType(std::string_view key, std::string_view wanted, element value) const {
  const std::string name = PathOf(key);
  return Status::InvalidArgument(
      "'" + name + "' must be " + std::string(wanted) + ", is " + JsonTypeName(value), name);
}

Expected<int64_t> JsonObject::IntOf(std::string_view key, element value, int64_t min,
                                    int64_t max) const {
  const std::string name = PathOf(key);
  const auto outside = [&](const std::string& is) {
    return Status::InvalidArgument(
        "'" + name + "' must be " + Bounds(std::to_string(min), std::to_string(max)) + ", is " + is,
        name);
  };
  int64_t number = 0;
  if (value.get(number) == simdjson::SUCCESS) {
    if (number < min || number > max) return outside(std::to_string(number));
    return number;
  }
  if (value.is_uint64()) return outside(std::to_string(value.get_uint64().value_unsafe()));
  double real = 0;
  if (value.get(real) != simdjson::SUCCESS) return WrongType(key, "an integer", value);
  // 3.0 is accepted for 3; beyond 2^53 a double no longer says which integer was meant.
  constexpr double kExactMax = 9007199254740992.0;
  if (real != std::floor(real)) {
    return Status::InvalidArgument("'" + name + "' must be an integer, is " + NumberText(real),
                                   name);
  }
  if (std::abs(real) > kExactMax) return outside(NumberText(real));
  number = static_cast<int64_t>(real);
  if (number < min || number > max) return outside(std::to_string(number));
  return number;
}

Expected<double> JsonObject::NumberOf(std::string_view key, element value, double min,
                                      double max) const {
  double number = 0;
  if (value.get(number) != simdjson::SUCCESS) return WrongType(key, "a number", value);
  if (!(number >= min && number <= max)) {
    const std::string name = PathOf(key);
    return Status::InvalidArgument("'" + name + "' must be " +
                                       Bounds(NumberText(min), NumberText(max)) + ", is " +
                                       NumberText(number),
                                   name);
  }
  return number;
}

Expected<bool> JsonObject::BoolOf(std::string_view key, element value) const {
  bool truth = false;
  if (value.get(truth) != simdjson::SUCCESS) return WrongType(key, "true or false", value);
  return truth;
}

Expected<std::string> JsonObject::StringOf(std::string_view key, element value,
                                           size_t bytes_max) const {
  std::string_view text;
  if (value.get(text) != simdjson::SUCCESS) return WrongType(key, "a string", value);
  if (text.size() > bytes_max) {
    const std::string name = PathOf(key);
    return Status::InvalidArgument("'" + name + "' is " + std::to_string(text.size()) +
                                       " bytes long; at most " + std::to_string(bytes_max) +
                                       " are allowed",
                                   name);
  }
  return std::string(text);
}

Expected<int64_t> JsonObject::GetInt(std::string_view key, int64_t min, int64_t max) const {
  PENSTOCK_ASSIGN_OR_RETURN(const element value, Need(key));
  return IntOf(key, value, min, max);
}

Expected<int64_t> JsonObject::GetIntOr(std::string_view key, int64_t absent, int64_t min,
                                       int64_t max) const {
  const auto value = Find(key);
  if (!value) return absent;
  return IntOf(key, *value, min, max);
}

Expected<double> JsonObject::GetNumber(std::string_view key, double min, double max) const {
  PENSTOCK_ASSIGN_OR_RETURN(const element value, Need(key));
  return NumberOf(key, value, min, max);
}

Expected<double> JsonObject::GetNumberOr(std::string_view key, double absent, double min,
                                         double max) const {
  const auto value = Find(key);
  if (!value) return absent;
  return NumberOf(key, *value, min, max);
}

Expected<bool> JsonObject::GetBool(std::string_view key) const {
  PENSTOCK_ASSIGN_OR_RETURN(const element value, Need(key));
  return BoolOf(key, value);
}

Expected<bool> JsonObject::GetBoolOr(std::string_view key, bool absent) const {
  const auto value = Find(key);
  if (!value) return absent;
  return BoolOf(key, *value);
}

Expected<std::string> JsonObject::GetString(std::string_view key, size_t bytes_max) const {
  PENSTOCK_ASSIGN_OR_RETURN(const element value, Need(key));
  return StringOf(key, value, bytes_max);
}

Expected<std::string> JsonObject::GetStringOr(std::string_view key, std::string_view absent,
                                              size_t bytes_max) const {
  const auto value = Find(key);
  if (!value) return std::string(absent);
  return StringOf(key, *value, bytes_max);
}

Expected<JsonObject> JsonObject::GetObject(std::string_view key) const {
  PENSTOCK_ASSIGN_OR_RETURN(const element value, Need(key));
  simdjson::dom::object object;
  if (value.get(object) != simdjson::SUCCESS) return WrongType(key, "an object", value);
  return JsonObject(object, PathOf(key));
}

Expected<JsonObject> JsonObject::GetObjectOrEmpty(std::string_view key) const {
  if (!Has(key)) {
    JsonObject empty;
    empty.path_ = PathOf(key);
    return empty;
  }
  return GetObject(key);
}

Expected<simdjson::dom::array> JsonObject::GetArray(std::string_view key, size_t size_max) const {
  PENSTOCK_ASSIGN_OR_RETURN(const element value, Need(key));
  simdjson::dom::array array;
  if (value.get(array) != simdjson::SUCCESS) return WrongType(key, "an array", value);
  if (size_max != kNoLimit) {
    // The tape stores sizes saturated at 24 bits, so the elements are counted.
    size_t size = 0;
    for ([[maybe_unused]] const element item : array) ++size;
    if (size > size_max) {
      const std::string name = PathOf(key);
      return Status::InvalidArgument("'" + name + "' has " + std::to_string(size) +
                                         " elements; at most " + std::to_string(size_max) +
                                         " are allowed",
                                     name);
    }
  }
  return array;
}

Expected<std::vector<std::string>> JsonObject::GetStringsOrEmpty(std::string_view key,
                                                                 size_t size_max) const {
  std::vector<std::string> strings;
  if (!Has(key)) return strings;
  PENSTOCK_ASSIGN_OR_RETURN(const simdjson::dom::array array, GetArray(key, size_max));
  for (const element item : array) {
    std::string_view text;
    if (item.get(text) != simdjson::SUCCESS) {
      return WrongType(std::string(key) + "[" + std::to_string(strings.size()) + "]", "a string",
                       item);
    }
    strings.emplace_back(text);
  }
  return strings;
}

Expected<std::map<std::string, std::string>> JsonObject::GetStringMapOrEmpty(
    std::string_view key) const {
  std::map<std::string, std::string> strings;
  PENSTOCK_ASSIGN_OR_RETURN(const JsonObject object, GetObjectOrEmpty(key));
  Status status;
  object.ForEach([&](std::string_view name, element value) {
    auto text = object.StringOf(name, value, kNoLimit);
    if (text.ok()) {
      strings.emplace(name, *std::move(text));
    } else if (status.ok()) {
      status = text.status();
    }
  });
  PENSTOCK_RETURN_IF_ERROR(status);
  return strings;
}

// ---- JsonDocument

Expected<JsonDocument> JsonDocument::Parse(std::string_view text, size_t bytes_max) {
  if (text.size() > bytes_max) {
    return Status(StatusCode::kPayloadTooLarge, "JSON of " + std::to_string(text.size()) +
                                                    " bytes; at most " + std::to_string(bytes_max) +
                                                    " are allowed");
  }
  if (text.data() == nullptr) text = "";  // simdjson copies it, also where it is empty
  JsonDocument document;
  document.tape_ = std::make_unique<simdjson::dom::document>();
  auto error = ParseOnce(text, *document.tape_, &document.root_);
  if (error == simdjson::NUMBER_ERROR) {
    error = ParseOnce(WithBigIntegersAsDoubles(text), *document.tape_, &document.root_);
  }
  if (error == simdjson::DEPTH_ERROR) {
    return Status::InvalidArgument("JSON nested deeper than " + std::to_string(kDepthMax) +
                                   " levels");
  }
  if (error == simdjson::MEMALLOC) {
    return Status(StatusCode::kResourceExhausted, "there is not enough memory to read the JSON")
        .WithRetryAfter(1);
  }
  if (error != simdjson::SUCCESS) {
    return Status::InvalidArgument(std::string("not valid JSON: ") +
                                   simdjson::error_message(error));
  }
  return document;
}

Expected<JsonDocument> JsonDocument::ParseFile(const std::string& path, size_t bytes_max) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string text, ReadRegularFile(path, bytes_max));
  auto document = Parse(text);
  if (!document.ok()) return document.status().Annotate(path);
  return document;
}

Expected<JsonObject> JsonDocument::Object() const {
  simdjson::dom::object object;
  if (root_.get(object) != simdjson::SUCCESS) {
    return Status::InvalidArgument(std::string("the JSON must be an object, is ") +
                                   JsonTypeName(root_));
  }
  return JsonObject(object);
}

}  // namespace penstock
