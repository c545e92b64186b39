// The Qwen3-Coder form of a call, from "<function=" on:
//   <function=name> <parameter=key>value</parameter> ... </function>
// One line break behind <parameter=key> and one before </parameter> belong to the tags; values are
// kept as they are otherwise, and typed by the tool's schema (tool_set.h).
//
// A value whose </parameter> is missing ends at a <parameter= that begins a line, or at </function>
// with </tool_call> behind it. A parameter written twice is no call.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "reply/call_reader.h"

namespace penstock {

// arguments() grows by whole parameters.
class CallXml : public CallReader {
 public:
  CallXml(const ToolSet& tools, const CallLimits& limits) : CallReader(tools, limits) {}

 protected:
  Result Read(char c) override;

 private:
  enum class State { kFunction, kName, kBody, kTag, kKey, kValue };
  Result InName(char c);
  Result InTag(char c);
  Result InValue(char c);
  // Adds the parameter key_ with the first `size` bytes of the value; false: it is there already.
  // The last `unused` bytes read belong to what follows.
  bool AddParameter(size_t size, size_t unused = 0);
  Result End();

  State state_ = State::kFunction;
  std::string text_;  // of the tag, the name, the key, the value
  std::string key_;
  std::vector<std::string> keys_;
  std::optional<TypedParameters> types_;
};

}  // namespace penstock
