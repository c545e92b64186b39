// tojson as transformers has it: Python's json.dumps, without the escaping of HTML that is jinja2's
// own.
#include <algorithm>
#include <cmath>

#include "chat/jinja_builtins.h"
#include "unicode/utf8.h"

namespace penstock::chat::jinja {
namespace {

using std::string_view;

class JsonPrinter {
 public:
  JsonPrinter(Interp& interp, TextBuilder* out) : interp_(interp), out_(out) {}
  bool ascii = false, sort_keys = false, lines = false;
  std::string indent, item_separator = ", ", key_separator = ": ";

  void Print(const Value& value, int level) {
    interp_.Step();
    const Interp::Deeper deeper(interp_);
    switch (value.kind()) {
      case Kind::kNone:
        return out_->Add("null");
      case Kind::kBool:
        return out_->Add(value.integer() != 0 ? "true" : "false");
      case Kind::kInt:
        return out_->Add(std::to_string(value.integer()));
      case Kind::kFloat:
        return out_->Add(Number(value.real()));
      case Kind::kString:
        return Quoted(value.text());
      case Kind::kList:
      case Kind::kTuple:
        return List(value.as<ListObject>().items, level);
      case Kind::kDict:
        return Dict(value, level);
      default:
        Fail("tojson: a value of this type has no JSON");
    }
  }

 private:
  static std::string Number(double number) {
    if (std::isnan(number)) return "NaN";
    if (std::isinf(number)) return number < 0 ? "-Infinity" : "Infinity";
    return FloatText(number);
  }
  void NewLine(int level) {
    if (!lines) return;
    out_->Add("\n");
    for (int i = 0; i < level; ++i) out_->Add(indent);
  }
  void List(const std::vector<Value>& items, int level) {
    if (items.empty()) return out_->Add("[]");
    out_->Add("[");
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_->Add(item_separator);
      NewLine(level + 1);
      Print(items[i], level + 1);
    }
    NewLine(level);
    out_->Add("]");
  }
  void Key(const Value& key) {
    switch (key.kind()) {
      case Kind::kString:
        return Quoted(key.text());
      case Kind::kFloat:
        return Quoted(Number(key.real()));
      case Kind::kBool:
        return Quoted(key.integer() != 0 ? "true" : "false");
      case Kind::kNone:
        return Quoted("null");
      case Kind::kInt:
        return Quoted(std::to_string(key.integer()));
      default:
        Fail("tojson: a key of this type has no JSON");
    }
  }
  void Dict(const Value& value, int level) {
    const auto& given = value.as<DictObject>().entries;
    if (given.empty()) return out_->Add("{}");
    std::vector<const std::pair<Value, Value>*> entries;
    // The entries, and half that number of places to merge them in.
    const ScopedBytes held(interp_.heap(), HeapBytes(given.size() * 2 * sizeof entries[0]));
    entries.reserve(given.size());
    for (const auto& entry : given) entries.push_back(&entry);
    if (sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [&](const auto* a, const auto* b) {
        return interp_.Less(a->first, b->first);
      });
    }
    out_->Add("{");
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_->Add(item_separator);
      NewLine(level + 1);
      Key(entries[i]->first);
      out_->Add(key_separator);
      Print(entries[i]->second, level + 1);
    }
    NewLine(level);
    out_->Add("}");
  }
  void Escaped(uint32_t unit) {
    char hex[8];
    std::snprintf(hex, sizeof hex, "\\u%04x", static_cast<unsigned>(unit));
    out_->Add(hex);
  }
  void Quoted(string_view text) {
    static constexpr string_view kSigns = "\"\\\n\r\t\f\b";
    static constexpr string_view kNames = "\"\\nrtfb";
    interp_.heap().StepBytes(text.size() * 4);
    out_->Add("\"");
    size_t plain = 0;  // the first byte that is not written yet
    for (size_t at = 0; at < text.size();) {
      int length = 0;
      const char32_t c = unicode::DecodeUtf8(text.data() + at, &length);
      const size_t sign = c < 0x80 ? kSigns.find(char(c)) : string_view::npos;
      if (c >= 0x20 && sign == string_view::npos && (c < 0x7F || !ascii || c == 0x7F)) {
        at += length;
        continue;
      }
      out_->Add(text.substr(plain, at - plain));
      at += length;
      plain = at;
      if (sign != string_view::npos) {
        out_->Add("\\");
        out_->Add(1, kNames[sign]);
      } else if (c >= 0x10000) {
        Escaped(0xD800 + ((c - 0x10000) >> 10));
        Escaped(0xDC00 + ((c - 0x10000) & 0x3FF));
      } else {
        Escaped(c);
      }
    }
    out_->Add(text.substr(plain));
    out_->Add("\"");
  }

  Interp& interp_;
  TextBuilder* out_;
};

}  // namespace

Value ToJson(Interp& interp, const Value& value, const Args& args) {
  Value given[4];
  args.Bind("tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}, 0, given);
  TextBuilder out(interp.heap());
  JsonPrinter printer(interp, &out);
  ScopedBytes held(interp.heap());
  printer.ascii = !given[0].is_missing() && interp.Truth(given[0]);
  printer.sort_keys = !given[3].is_missing() && interp.Truth(given[3]);
  if (!given[1].is_missing() && !given[1].is_none()) {
    printer.lines = true;
    printer.item_separator = ",";
    if (given[1].is_string()) {
      held.Add(given[1].text().size());
      printer.indent = given[1].text();
    } else {
      const int64_t width = std::max<int64_t>(IntArg(given[1], 0), 0);
      held.Add(static_cast<size_t>(width));
      printer.indent.assign(width, ' ');
    }
  }
  if (!given[2].is_missing() && !given[2].is_none()) {
    const ListBuilder pair = interp.ToItems(given[2]);
    if (pair.items().size() != 2) Fail("tojson: two separators are expected");
    held.Add(TextArg(pair.items()[0], {}).size() + TextArg(pair.items()[1], {}).size());
    printer.item_separator = TextArg(pair.items()[0], {});
    printer.key_separator = TextArg(pair.items()[1], {});
  }
  printer.Print(value, 0);
  return out.Done();
}

}  // namespace penstock::chat::jinja
