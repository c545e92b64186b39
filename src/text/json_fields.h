// Typed access to the fields of a JSON object, with errors that name the field.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "json/json.h"

namespace penstock::text {

// One object of a tokenizer.json and where it stands ("normalizer.normalizers[1]").
class JsonFields {
 public:
  using Element = JsonElement;

  static Expected<JsonFields> Of(Element element, std::string path) {
    JsonObject object;
    if (!element.Get(&object)) return Wrong(path, "an object");
    return JsonFields(object, std::move(path));
  }

  const std::string& path() const { return path_; }
  std::string PathOf(std::string_view name) const {
    return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
  }
  // False for a missing field and for null.
  bool Has(std::string_view name) const {
    const Element value = object_[name];
    return !value.missing() && !value.is_null();
  }
  Expected<Element> Get(std::string_view name) const {
    const Element value = object_[name];
    if (value.missing()) {
      return Status::InvalidArgument("missing", PathOf(name));
    }
    return value;
  }
  Expected<std::string_view> String(std::string_view name) const {
    PENSTOCK_ASSIGN_OR_RETURN(Element value, Get(name));
    std::string_view text;
    if (!value.Get(&text)) return Wrong(PathOf(name), "a string");
    return text;
  }
  Expected<bool> Bool(std::string_view name) const {
    PENSTOCK_ASSIGN_OR_RETURN(Element value, Get(name));
    bool flag = false;
    if (!value.Get(&flag)) return Wrong(PathOf(name), "true or false");
    return flag;
  }
  Expected<bool> BoolOr(std::string_view name, bool fallback) const {
    if (!Has(name)) return fallback;
    return Bool(name);
  }
  // 0 to `limit`.
  Expected<int64_t> Integer(std::string_view name, int64_t limit) const {
    PENSTOCK_ASSIGN_OR_RETURN(Element value, Get(name));
    int64_t number = 0;
    if (!value.Get(&number) || number < 0 || number > limit) {
      return Wrong(PathOf(name), "an integer from 0 to " + std::to_string(limit));
    }
    return number;
  }
  Expected<JsonArray> Array(std::string_view name) const {
    PENSTOCK_ASSIGN_OR_RETURN(Element value, Get(name));
    JsonArray array;
    if (!value.Get(&array)) return Wrong(PathOf(name), "an array");
    return array;
  }
  Expected<JsonFields> Object(std::string_view name) const {
    PENSTOCK_ASSIGN_OR_RETURN(Element value, Get(name));
    return Of(value, PathOf(name));
  }

  static Status Wrong(const std::string& path, const std::string& wanted) {
    return Status::InvalidArgument("must be " + wanted, path);
  }

 private:
  JsonFields(JsonObject object, std::string path) : object_(object), path_(std::move(path)) {}

  JsonObject object_;
  std::string path_;
};

}  // namespace penstock::text
