// What templates may call: filters, tests, globals and methods, by name. The tables hold what
// jinja2 and Python have and chat templates use; what is missing is named when a template is
// parsed.
#pragma once

#include <span>
#include <string_view>

#include "chat/jinja_interp.h"

namespace penstock::chat {
class JsonValue;
}

namespace penstock::chat::jinja {

struct Filter {
  std::string_view name;
  Function function;
};
struct Test {
  std::string_view name;
  bool (*function)(Interp& interp, const Value& input, const Args& args);
};
struct Named {
  std::string_view name;
  Function function;
};

// nullptr: the name is unknown.
const Filter* FindFilter(std::string_view name);
const Test* FindTest(std::string_view name);
const Named* FindGlobal(std::string_view name);
// The method `name` of an object of this kind: texts, lists, tuples, dicts.
const Named* FindMethod(Kind kind, std::string_view name);
// A method that Python has and the sandbox hides: it changes its object.
bool IsHiddenMethod(Kind kind, std::string_view name);

// The parts of the tables, a file each.
std::span<const Filter> TextFilters();      // jinja_filters_text.cc
std::span<const Filter> SequenceFilters();  // jinja_filters_sequence.cc
std::span<const Filter> PickFilters();      // jinja_filters_pick.cc
std::span<const Named> TextMethods();       // jinja_text_methods.cc
std::span<const Named> TextLineMethods();   // jinja_text_methods_more.cc

// ---- Shared by them
// `text`.format(...) (jinja_format.cc) and `text` % value (jinja_percent.cc).
Value FormatBraces(Interp& interp, const Value& text, const Args& args);
Value FormatPercent(Interp& interp, const Value& text, const Value& values);
// json.dumps as transformers calls it (jinja_tojson.cc).
Value ToJson(Interp& interp, const Value& value, const Args& args);
// json.loads, which some templates call as a filter (jinja_from_json.cc).
Value FromJson(Interp& interp, const Value& value, const Args& args);
// `text` is kept by the caller while the template is rendered; what is not UTF-8 is replaced.
Value BorrowedText(Interp& interp, std::string_view text);
// Whether the texts of `json` are kept so too.
enum class Texts { kBorrowed, kCopied };
Value FromJsonValue(Interp& interp, const JsonValue& json, Texts texts);

// An integer argument; fails on another type. `absent` where it is missing.
int64_t IntArg(const Value& value, int64_t absent);
// A text argument; fails on another type.
std::string_view TextArg(const Value& value, std::string_view absent);
// int(text, base) and float(text) of Python; false: the text is not a number.
bool ParseInt(std::string_view text, int64_t base, int64_t* number);
bool ParseFloat(std::string_view text, double* number);
// The first line of `text`, and the bytes up to the next one.
size_t LineLength(std::string_view text, size_t* with_end);
// str.isupper, str.islower.
bool HasCase(std::string_view text, bool upper);
// repr(number), and round(number, digits).
std::string FloatText(double number);
double RoundFloat(double number, int64_t digits);

}  // namespace penstock::chat::jinja
