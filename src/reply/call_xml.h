// The Qwen3-Coder form of a call, from "<function=" on:
//   <function=name> <parameter=key>value</parameter> ... </function>
// One line break behind <parameter=key> and one before </parameter> belong to the tags; values are
// kept as they are otherwise, and typed by the tool's schema (tool_set.h).
//
// A value whose </parameter> is missing ends at a <parameter= that begins a line, or at </function>
// with </tool_call> behind it and at most kSpacesMax bytes of whitespace between them. Where a
// parameter is written twice its first value counts, for that may have been told.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reply/call_reader.h"

namespace penstock::reply {

// arguments() grows by whole parameters; a parameter that can only be a string grows with its text,
// less what may still be the end of it.
class CallXml : public CallReader {
 public:
  static constexpr size_t kSpacesMax = 64;
  // Begins a call: the name follows.
  static constexpr std::string_view kFunctionTag = "<function=";

  CallXml(const ToolSet& tools, const CallLimits& limits) : CallReader(tools, limits) {}

 protected:
  Result Read(char c) override;

 private:
  enum class State { kFunction, kName, kBody, kTag, kKey, kValue };
  Result InName(char c);
  Result InTag(char c);
  Result InValue(char c);
  void BeginParameter();
  // Appends the key to the arguments.
  void AppendKey();
  // Appends the value from value_at_ to `end`, escaped.
  void AppendText(size_t end);
  // Where the value may end, were its text to break off here.
  size_t MayEndAt() const;
  // The value is the first `size` bytes of text_; the last `unused` bytes read are what follows.
  void EndParameter(size_t size, size_t unused = 0);
  Result End();

  State state_ = State::kFunction;
  std::string text_;  // of the tag, the name, the key, the value
  std::string key_;
  std::vector<std::string> keys_;
  std::optional<TypedParameters> types_;
  bool repeats_ = false;  // the parameter was there before: its value goes nowhere
  bool is_text_ = false;  // the parameter can only be a string
  bool has_key_ = false;  // its key is in the arguments
  size_t value_at_ = 0;   // the value's bytes before are in the arguments, or are its line break
};

}  // namespace penstock::reply
