// Follows one call of a tool byte by byte, in one of the forms that models write. A call stands
// once its name is one of the request's tools and its arguments are a complete JSON object.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "reply/tool_set.h"

namespace penstock::reply {

struct CallLimits {
  size_t json_depth_max = 48;   // a call whose arguments are nested deeper is text
  size_t name_bytes_max = 256;  // of a tool, and of a parameter in the Qwen3-Coder form
};

// One call, read once. Not thread-safe; the tools outlive it.
class CallReader {
 public:
  enum class Result {
    kMore,  // the byte belongs to the call, which goes on
    kDone,  // the byte ends the call, which stands
    kBad,   // with this byte it is not a call, or not any longer
  };

  CallReader(const ToolSet& tools, const CallLimits& limits) : tools_(tools), limits_(limits) {}
  CallReader(const CallReader&) = delete;
  CallReader& operator=(const CallReader&) = delete;
  virtual ~CallReader() = default;

  // Not to be called after another result than kMore.
  Result Next(char c) {
    ++size_;
    const Result result = Read(c);
    // A byte that is refused is not the call's, whatever its reader has noted of it.
    if (result == Result::kBad) told_bytes_ = std::min(told_bytes_, size_ - 1);
    return result;
  }

  // nullptr until the name is known.
  const ReplyTool* tool() const { return tool_; }
  // The arguments as JSON, as far as they are known: they only grow, and are complete when the call
  // stands.
  const std::string& arguments() const { return arguments_; }
  // The bytes after which the call stood, counted from the first read; 0: it does not.
  size_t stands_at() const { return stands_at_; }
  // The bytes whose content `tool` and `arguments` have; never a byte that was refused.
  size_t told_bytes() const { return told_bytes_; }
  // The end of the tag around the call was read with it.
  bool closed_tag() const { return closed_tag_; }

 protected:
  virtual Result Read(char c) = 0;

  // A name is complete; false: no tool has it.
  bool SetName(std::string_view name) {
    tool_ = tools_.Find(name);
    return tool_ != nullptr;
  }

  const ToolSet& tools_;
  const CallLimits limits_;
  const ReplyTool* tool_ = nullptr;
  std::string arguments_;
  size_t size_ = 0;  // bytes read, with the one that is being read
  size_t stands_at_ = 0;
  size_t told_bytes_ = 0;
  bool closed_tag_ = false;
};

}  // namespace penstock::reply
