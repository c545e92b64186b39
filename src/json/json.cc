#include "json/json.h"

#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>

#include "base/regular_file.h"

namespace penstock {

// Between our places and simdjson's references, which are alike but private there: an element, an
// array, an object and their iterators are each a document and an index of its tape.
struct JsonDom {
  using Place = JsonElement::Place;
  template <typename Dom>
  static Dom To(Place place) {
    static_assert(sizeof(Dom) == sizeof(Place) && std::is_trivially_copyable_v<Dom>);
    return std::bit_cast<Dom>(place);
  }
  template <typename Dom>
  static Place From(const Dom& dom) {
    static_assert(sizeof(Dom) == sizeof(Place) && std::is_trivially_copyable_v<Dom>);
    return std::bit_cast<Place>(dom);
  }
  static JsonElement Element(const simdjson::dom::element& dom) { return JsonElement(From(dom)); }
  // False if nothing is there, or a value of another type.
  template <typename T>
  static bool Get(Place place, T* out) {
    T value;
    if (place.document == nullptr ||
        To<simdjson::dom::element>(place).get(value) != simdjson::SUCCESS) {
      return false;
    }
    *out = value;
    return true;
  }
};

namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::element_type;
using simdjson::dom::object;

// Larger parsers are not kept for the thread's next text.
constexpr size_t kKeptParserBytesMax = 1 << 20;

// An object that is never destroyed.
template <typename Kind>
const simdjson::implementation* Kept() {
  alignas(Kind) static std::byte place[sizeof(Kind)];
  return new (place) Kind;
}

// The code that simdjson selects for this processor, in an object of our own: that of its shared
// library is destroyed when the process ends, while threads of libpenstock.so may still parse.
const simdjson::implementation* KeptImplementation() {
  const std::string name = simdjson::get_active_implementation()->name();
#if SIMDJSON_IMPLEMENTATION_ICELAKE
  if (name == "icelake") return Kept<simdjson::icelake::implementation>();
#endif
#if SIMDJSON_IMPLEMENTATION_HASWELL
  if (name == "haswell") return Kept<simdjson::haswell::implementation>();
#endif
#if SIMDJSON_IMPLEMENTATION_WESTMERE
  if (name == "westmere") return Kept<simdjson::westmere::implementation>();
#endif
#if SIMDJSON_IMPLEMENTATION_ARM64
  if (name == "arm64") return Kept<simdjson::arm64::implementation>();
#endif
  return Kept<simdjson::fallback::implementation>();
}

// Selected here and not at first use, inside functions that may not throw: that would allocate.
[[maybe_unused]] const bool kSelected = [] {
  simdjson::get_active_implementation() = KeptImplementation();
  return true;
}();

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Appends an exponent to integers of 19 digits and more, outside strings, so that they are read
// as doubles. (simdjson refuses integers that do not fit 64 bits.)
std::string WithBigIntegersAsDoubles(std::string_view text) {
  constexpr size_t kDigitsMax = 18;
  std::string out;
  out.reserve(text.size() + text.size() / 8 + 64);  // two bytes more for twenty
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

// ---- JsonElement

JsonType JsonElement::type() const {
  if (missing()) return JsonType::kMissing;
  switch (JsonDom::To<element>(place_).type()) {
    case element_type::ARRAY:
      return JsonType::kArray;
    case element_type::OBJECT:
      return JsonType::kObject;
    case element_type::INT64:
      return JsonType::kInt64;
    case element_type::UINT64:
      return JsonType::kUint64;
    case element_type::DOUBLE:
      return JsonType::kDouble;
    case element_type::STRING:
      return JsonType::kString;
    case element_type::BOOL:
      return JsonType::kBool;
    case element_type::NULL_VALUE:
      return JsonType::kNull;
  }
  return JsonType::kMissing;
}

bool JsonElement::Get(bool* out) const { return JsonDom::Get(place_, out); }
bool JsonElement::Get(int64_t* out) const { return JsonDom::Get(place_, out); }
bool JsonElement::Get(uint64_t* out) const { return JsonDom::Get(place_, out); }
bool JsonElement::Get(double* out) const { return JsonDom::Get(place_, out); }
bool JsonElement::Get(std::string_view* out) const { return JsonDom::Get(place_, out); }

bool JsonElement::Get(std::string* out) const {
  std::string_view text;
  if (!Get(&text)) return false;
  *out = text;
  return true;
}

bool JsonElement::Get(JsonArray* out) const {
  array found;
  if (!JsonDom::Get(place_, &found)) return false;
  out->place_ = JsonDom::From(found);
  return true;
}

bool JsonElement::Get(JsonObject* out) const {
  object found;
  if (!JsonDom::Get(place_, &found)) return false;
  out->place_ = JsonDom::From(found);
  out->path_.clear();
  return true;
}

JsonElement JsonElement::operator[](std::string_view key) const {
  JsonObject object;
  return Get(&object) ? object[key] : JsonElement();
}

std::string JsonElement::Text() const {
  return missing() ? std::string() : simdjson::minify(JsonDom::To<element>(place_));
}

const char* JsonTypeName(JsonElement value) {
  switch (value.type()) {
    case JsonType::kArray:
      return "array";
    case JsonType::kObject:
      return "object";
    case JsonType::kInt64:
    case JsonType::kUint64:
    case JsonType::kDouble:
      return "number";
    case JsonType::kString:
      return "string";
    case JsonType::kBool:
      return "bool";
    case JsonType::kNull:
      return "null";
    case JsonType::kMissing:
      break;
  }
  return "missing";
}

// ---- JsonArray

JsonArray::Iterator JsonArray::begin() const {
  if (place_.document == nullptr) return Iterator({});
  return Iterator(JsonElement(JsonDom::From(JsonDom::To<array>(place_).begin())));
}

JsonArray::Iterator JsonArray::end() const {
  if (place_.document == nullptr) return Iterator({});
  return Iterator(JsonElement(JsonDom::From(JsonDom::To<array>(place_).end())));
}

JsonArray::Iterator& JsonArray::Iterator::operator++() {
  auto next = JsonDom::To<array::iterator>(at_.place_);
  ++next;
  at_.place_ = JsonDom::From(next);
  return *this;
}

size_t JsonArray::size() const {
  return place_.document == nullptr ? 0 : JsonDom::To<array>(place_).size();
}

JsonElement JsonArray::operator[](size_t index) const {
  for (const JsonElement each : *this) {
    if (index-- == 0) return each;
  }
  return {};
}

// ---- JsonObject

JsonObject::Iterator JsonObject::begin() const {
  if (place_.document == nullptr) return Iterator({});
  return Iterator(JsonDom::From(JsonDom::To<object>(place_).begin()));
}

JsonObject::Iterator JsonObject::end() const {
  if (place_.document == nullptr) return Iterator({});
  return Iterator(JsonDom::From(JsonDom::To<object>(place_).end()));
}

JsonObject::Iterator& JsonObject::Iterator::operator++() {
  auto next = JsonDom::To<object::iterator>(at_);
  ++next;
  at_ = JsonDom::From(next);
  return *this;
}

JsonField JsonObject::Iterator::operator*() const {
  const auto field = JsonDom::To<object::iterator>(at_);
  return {field.key(), JsonDom::Element(field.value())};
}

size_t JsonObject::size() const {
  return place_.document == nullptr ? 0 : JsonDom::To<object>(place_).size();
}

JsonElement JsonObject::operator[](std::string_view key) const {
  element value;
  if (place_.document == nullptr ||
      JsonDom::To<object>(place_).at_key(key).get(value) != simdjson::SUCCESS) {
    return {};
  }
  return JsonDom::Element(value);
}

std::string JsonObject::PathOf(std::string_view key) const {
  if (path_.empty()) return std::string(key);
  return path_ + "." + std::string(key);
}

std::optional<JsonElement> JsonObject::Find(std::string_view key) const {
  const JsonElement value = (*this)[key];
  if (value.missing() || value.is_null()) return std::nullopt;
  return value;
}

bool JsonObject::Has(std::string_view key) const { return Find(key).has_value(); }

Expected<JsonElement> JsonObject::Need(std::string_view key) const {
  if (const auto value = Find(key)) return *value;
  const std::string name = PathOf(key);
  return Status::InvalidArgument("'" + name + "' is missing", name);
}

Status JsonObject::WrongType(std::string_view key, std::string_view wanted,
                             JsonElement value) const {
  const std::string name = PathOf(key);
  return Status::InvalidArgument(
      "'" + name + "' must be " + std::string(wanted) + ", is " + JsonTypeName(value), name);
}

Expected<int64_t> JsonObject::IntOf(std::string_view key, JsonElement value, int64_t min,
                                    int64_t max) const {
  const std::string name = PathOf(key);
  const auto outside = [&](const std::string& is) {
    return Status::InvalidArgument(
        "'" + name + "' must be " + Bounds(std::to_string(min), std::to_string(max)) + ", is " + is,
        name);
  };
  int64_t number = 0;
  if (value.Get(&number)) {
    if (number < min || number > max) return outside(std::to_string(number));
    return number;
  }
  if (uint64_t large = 0; value.Get(&large)) return outside(std::to_string(large));
  double real = 0;
  if (!value.Get(&real)) return WrongType(key, "an integer", value);
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

Expected<double> JsonObject::NumberOf(std::string_view key, JsonElement value, double min,
                                      double max) const {
  double number = 0;
  if (!value.Get(&number)) return WrongType(key, "a number", value);
  if (!(number >= min && number <= max)) {
    const std::string name = PathOf(key);
    return Status::InvalidArgument("'" + name + "' must be " +
                                       Bounds(NumberText(min), NumberText(max)) + ", is " +
                                       NumberText(number),
                                   name);
  }
  return number;
}

Expected<bool> JsonObject::BoolOf(std::string_view key, JsonElement value) const {
  bool truth = false;
  if (!value.Get(&truth)) return WrongType(key, "true or false", value);
  return truth;
}

Expected<std::string> JsonObject::StringOf(std::string_view key, JsonElement value,
                                           size_t bytes_max) const {
  std::string_view text;
  if (!value.Get(&text)) return WrongType(key, "a string", value);
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
  PENSTOCK_ASSIGN_OR_RETURN(const JsonElement value, Need(key));
  return IntOf(key, value, min, max);
}

Expected<int64_t> JsonObject::GetIntOr(std::string_view key, int64_t absent, int64_t min,
                                       int64_t max) const {
  const auto value = Find(key);
  if (!value) return absent;
  return IntOf(key, *value, min, max);
}

Expected<double> JsonObject::GetNumber(std::string_view key, double min, double max) const {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonElement value, Need(key));
  return NumberOf(key, value, min, max);
}

Expected<double> JsonObject::GetNumberOr(std::string_view key, double absent, double min,
                                         double max) const {
  const auto value = Find(key);
  if (!value) return absent;
  return NumberOf(key, *value, min, max);
}

Expected<bool> JsonObject::GetBool(std::string_view key) const {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonElement value, Need(key));
  return BoolOf(key, value);
}

Expected<bool> JsonObject::GetBoolOr(std::string_view key, bool absent) const {
  const auto value = Find(key);
  if (!value) return absent;
  return BoolOf(key, *value);
}

Expected<std::string> JsonObject::GetString(std::string_view key, size_t bytes_max) const {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonElement value, Need(key));
  return StringOf(key, value, bytes_max);
}

Expected<std::string> JsonObject::GetStringOr(std::string_view key, std::string_view absent,
                                              size_t bytes_max) const {
  const auto value = Find(key);
  if (!value) return std::string(absent);
  return StringOf(key, *value, bytes_max);
}

Expected<JsonObject> JsonObject::GetObject(std::string_view key) const {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonElement value, Need(key));
  JsonObject object;
  if (!value.Get(&object)) return WrongType(key, "an object", value);
  return JsonObject(std::move(object), PathOf(key));
}

Expected<JsonObject> JsonObject::GetObjectOrEmpty(std::string_view key) const {
  if (!Has(key)) {
    JsonObject empty;
    empty.path_ = PathOf(key);
    return empty;
  }
  return GetObject(key);
}

Expected<JsonArray> JsonObject::GetArray(std::string_view key, size_t size_max) const {
  PENSTOCK_ASSIGN_OR_RETURN(const JsonElement value, Need(key));
  JsonArray array;
  if (!value.Get(&array)) return WrongType(key, "an array", value);
  if (size_max != kNoLimit) {
    // The tape stores sizes saturated at 24 bits, so the elements are counted.
    size_t size = 0;
    for ([[maybe_unused]] const JsonElement item : array) ++size;
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
  PENSTOCK_ASSIGN_OR_RETURN(const JsonArray array, GetArray(key, size_max));
  for (const JsonElement item : array) {
    std::string_view text;
    if (!item.Get(&text)) {
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
  object.ForEach([&](std::string_view name, JsonElement value) {
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

struct JsonDocument::Tape {
  simdjson::dom::document document;
};

JsonDocument::JsonDocument() = default;
JsonDocument::JsonDocument(JsonDocument&&) noexcept = default;
JsonDocument& JsonDocument::operator=(JsonDocument&&) noexcept = default;
JsonDocument::~JsonDocument() = default;

Expected<JsonDocument> JsonDocument::Parse(std::string_view text, size_t bytes_max) {
  if (text.size() > bytes_max) {
    return Status(StatusCode::kPayloadTooLarge, "JSON of " + std::to_string(text.size()) +
                                                    " bytes; at most " + std::to_string(bytes_max) +
                                                    " are allowed");
  }
  if (text.data() == nullptr) text = "";  // simdjson copies it, also where it is empty
  JsonDocument document;
  document.tape_ = std::make_unique<Tape>();
  element root;
  auto error = ParseOnce(text, document.tape_->document, &root);
  if (error == simdjson::NUMBER_ERROR) {
    document.tape_ = std::make_unique<Tape>();  // the first one's memory goes
    error = ParseOnce(WithBigIntegersAsDoubles(text), document.tape_->document, &root);
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
  document.root_ = JsonDom::Element(root);
  return document;
}

Expected<JsonDocument> JsonDocument::ParseFile(const std::string& path, size_t bytes_max) {
  PENSTOCK_ASSIGN_OR_RETURN(const std::string text, ReadRegularFile(path, bytes_max));
  auto document = Parse(text);
  if (!document.ok()) return document.status().Annotate(path);
  return document;
}

Expected<JsonObject> JsonDocument::Object() const {
  JsonObject object;
  if (!root_.Get(&object)) {
    return Status::InvalidArgument(std::string("the JSON must be an object, is ") +
                                   JsonTypeName(root_));
  }
  return object;
}

}  // namespace penstock
