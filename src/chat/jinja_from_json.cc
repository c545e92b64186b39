// JSON as values of templates: what a request gives, and the filter from_json, Python's json.loads,
// which neither jinja2 nor transformers has but other runtimes do.
#include "chat/jinja_builtins.h"
#include "chat/json_value.h"
#include "unicode/utf8.h"

namespace penstock::chat::jinja {
namespace {

// Bytes of a parsed document and of its tree, a byte of text: "[0,0," has an element every two.
constexpr size_t kParsedBytes = 64;

}  // namespace

Value BorrowedText(Interp& interp, std::string_view text) {
  if (IsValidUtf8(text)) return Value::Borrowed(text);
  std::string clean;
  unicode::AppendSanitizedUtf8(text, &clean);
  return interp.Text(std::move(clean));
}

Value FromJsonValue(Interp& interp, const JsonValue& json, Texts texts) {
  if (texts == Texts::kCopied) interp.Step();
  interp.CountValue();
  const Interp::Deeper deeper(interp);
  const auto text_of = [&](const std::string& text) {
    return texts == Texts::kCopied ? interp.Text(text) : BorrowedText(interp, text);
  };
  if (const bool* truth = json.boolean()) return Value::Bool(*truth);
  if (const int64_t* whole = json.integer()) return Value::Int(*whole);
  if (const double* real = json.number()) return Value::Float(*real);
  if (const std::string* text = json.string()) return text_of(*text);
  if (const JsonValue::Array* items = json.array()) {
    ListBuilder values(interp.heap());
    values.Reserve(items->size());
    for (const JsonValue& item : *items) values.Add(FromJsonValue(interp, item, texts));
    return values.Done();
  }
  const JsonValue::Object* members = json.object();
  if (members == nullptr) return Value::None();
  Value dict = interp.NewDict();
  auto& out = dict.as<DictObject>();
  out.Reserve(interp.heap(), members->size());
  for (const auto& [name, value] : *members) {
    out.Set(interp, text_of(name), FromJsonValue(interp, value, texts));
  }
  return dict;
}

Value FromJson(Interp& interp, const Value& value, const Args& args) {
  args.Bind("from_json", {}, 0, nullptr);
  if (!value.is_string()) Fail("from_json: a text is expected");
  const std::string_view text = value.text();
  const ScopedBytes held(interp.heap(), text.size() * kParsedBytes);
  interp.heap().StepBytes(text.size() * 16);
  const auto parsed = JsonValue::Parse(text);
  if (!parsed.ok()) Fail("from_json: " + parsed.status().message());
  return FromJsonValue(interp, *parsed, Texts::kCopied);
}

}  // namespace penstock::chat::jinja
