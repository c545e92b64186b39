#include "routes/schema_notation.h"

#include <cctype>

#include "common/status.h"

namespace penstock {
namespace {

struct Combination {
  std::string_view sign, keyword;
};
// A sign stands before its own beginning.
constexpr Combination kCombinations[] = {{"||", "anyOf"}, {"|", "oneOf"}, {"&", "allOf"}};

std::string Quoted(std::string_view name) { return '"' + std::string(name) + '"'; }

void Append(std::string* list, std::string_view value) {
  if (!list->empty()) *list += ',';
  *list += value;
}

// Adds a member to a JSON object that has one.
void AddMember(std::string* object, std::string_view key, std::string_view value) {
  object->insert(object->size() - 1, "," + Quoted(key) + ":" + std::string(value));
}

// Schemas are written as they are read, each as the text of a JSON object.
class SchemaReader {
 public:
  explicit SchemaReader(std::string_view text) : rest_(text) { SkipSpace(); }

  std::string Definitions() {
    std::string all;
    while (!rest_.empty()) {
      const std::string name = Quoted(Word());
      Need("=");
      Append(&all, name + ":" + Schema());
    }
    return all;
  }

 private:
  void SkipSpace() {
    while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_[0]))) Drop(1);
  }
  void Drop(size_t length) { rest_.remove_prefix(length); }

  bool Take(std::string_view sign) {
    if (!rest_.starts_with(sign)) return false;
    Drop(sign.size());
    SkipSpace();
    return true;
  }
  void Need(std::string_view sign) { PENSTOCK_CHECK(Take(sign)); }

  // What comes before the first of `ends`.
  std::string_view Until(std::string_view ends) {
    const size_t length = rest_.find_first_of(ends);
    PENSTOCK_CHECK(length != 0);
    const std::string_view found = rest_.substr(0, length);
    Drop(found.size());
    SkipSpace();
    return found;
  }
  std::string_view Word() { return Until(" \n/?:,|&()[]{}\"="); }

  bool AtText() const { return rest_.starts_with('"'); }
  // With its quotes.
  std::string Text() {
    size_t end = 1;
    while (rest_.at(end) != '"') end += rest_[end] == '\\' ? 2 : 1;
    std::string text(rest_.substr(0, end + 1));
    Drop(text.size());
    SkipSpace();
    return text;
  }

  std::string Schema() {
    const std::string first = Described();
    for (const auto& [sign, keyword] : kCombinations) {
      if (!Take(sign)) continue;
      std::string all = first;
      do {
        Append(&all, Described());
      } while (Take(sign));
      return "{" + Quoted(keyword) + ":[" + all + "]}";
    }
    return first;
  }

  std::string Described() {
    std::string schema = Plain();
    if (Take("(")) {
      do {
        const std::string_view key = Word();
        Need(":");
        AddMember(&schema, key, Until(",)"));
      } while (Take(","));
      Need(")");
    }
    if (!AtText()) return schema;
    std::string description = Text();
    while (AtText()) description.replace(description.size() - 1, 1, Text().substr(1));
    // A reference stands alone in its object.
    if (schema.starts_with("{\"$ref\"")) schema = "{\"allOf\":[" + schema + "]}";
    AddMember(&schema, "description", description);
    return schema;
  }

  std::string Plain() {
    if (Take("(")) {
      std::string schema = Schema();
      Need(")");
      return schema;
    }
    if (AtText()) return Enumeration();
    if (Take("[")) {
      const std::string items = ",\"items\":" + Schema();
      Need("]");
      return Typed("\"array\"", items);
    }
    if (Take("{")) return Typed("\"object\"", Members());
    const std::string_view name = Word();
    if (name == "any") return "true";
    if (std::isupper(static_cast<unsigned char>(name[0]))) {
      return "{\"$ref\":\"#/components/schemas/" + std::string(name) + "\"}";
    }
    std::string types = Quoted(name);
    while (Take("/")) Append(&types, Quoted(Word()));
    return Typed(types, "");
  }

  // `types` are quoted, with commas; `rest` begins with a comma or is empty.
  std::string Typed(std::string types, const std::string& rest) {
    if (Take("?")) types += ",\"null\"";
    if (types.find(',') != std::string::npos) types = "[" + types + "]";
    return "{\"type\":" + types + rest + "}";
  }

  std::string Enumeration() {
    std::string values;
    do {
      Append(&values, Text());
    } while (Take("/"));
    if (rest_.starts_with('?')) values += ",null";
    return Typed("\"string\"", ",\"enum\":[" + values + "]");
  }

  // The fields of an object, to its closing brace.
  std::string Members() {
    std::string properties, required, others;
    do {
      const std::string name = Quoted(Word());
      const bool optional = Take("?");
      Need(":");
      if (name == "\"*\"") {
        others = ",\"additionalProperties\":" + Schema();
        continue;
      }
      if (!optional) Append(&required, name);
      Append(&properties, name + ":" + Schema());
    } while (Take(","));
    Need("}");
    std::string members;
    if (!properties.empty()) members += ",\"properties\":{" + properties + "}";
    if (!required.empty()) members += ",\"required\":[" + required + "]";
    return members + others;
  }

  std::string_view rest_;
};

}  // namespace

std::string ExpandSchemas(std::string_view text) { return SchemaReader(text).Definitions(); }

}  // namespace penstock
