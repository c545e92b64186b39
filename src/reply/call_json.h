// Calls whose arguments are written as JSON.
#pragma once

#include <string>

#include "reply/call_reader.h"
#include "reply/json_scanner.h"

namespace penstock::reply {

// An object with "name" and "arguments", or "parameters", in either order; it begins with the first
// byte. Arguments are an object, a string with an object in it, or null, "" or missing for {}.
// Other keys are skipped. If one of these keys occurs twice, the object is not a call.
class CallJson : public CallReader {
 public:
  // `bare`: nothing before the object says that it is a call. Then arguments must be there, and an
  // object with a key that calls do not have (beside "type" and "id") is not a call.
  CallJson(const ToolSet& tools, const CallLimits& limits, bool bare);

 protected:
  Result Read(char c) override;

 private:
  enum class State {
    kOpen,
    kFirstKey,
    kNextKey,
    kKey,
    kColon,
    kBeforeValue,
    kValue,
    kBehindValue,
  };
  enum class Role { kOther, kName, kArguments };

  Result InKey(char c);
  Result BeginValue(char c);
  Result InValue(char c);
  bool EndValue();
  Result BehindValue(char c);
  void CheckStands();

  const bool bare_;
  State state_ = State::kOpen;
  Role role_ = Role::kOther;
  JsonScanner scanner_;
  std::string text_;  // of the key; of the value, where it is not taken over as it comes
  bool has_name_ = false;
  bool has_arguments_ = false;  // the key
  bool arguments_end_ = false;  // they are complete
};

// Mistral's newer form, behind [TOOL_CALLS]: name{..}, name[ARGS]{..}, name[CALL_ID]id[ARGS]{..}.
class CallNamed : public CallReader {
 public:
  CallNamed(const ToolSet& tools, const CallLimits& limits);
  // Whether a name may have it.
  static bool IsNameByte(char c);

 protected:
  Result Read(char c) override;

 private:
  enum class State { kName, kTag, kId, kBeforeArguments, kArguments };
  Result InTag(char c);

  State state_ = State::kName;
  std::string text_;  // of the name, of a tag
  JsonScanner scanner_;
};

}  // namespace penstock::reply
