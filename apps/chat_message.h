// What a person types into `penstock chat`: lines become messages, or commands that begin with '/'.
//
//   """            begins and ends a message of several lines
//   \ at the end   the message goes on in the next line; two of them are just text
//   /name text     a command, on a line of its own
//   //text         the message "/text"
#pragma once

#include <string>
#include <string_view>

#include "sample/sampling_options.h"

namespace penstock::cli {

struct ChatInputText {
  enum class Kind { kNothing, kMessage, kCommand };
  Kind kind = Kind::kNothing;  // kNothing: only whitespace
  std::string text;            // of the message, or behind the command's name
  std::string name;            // of the command, without '/'
};

// Puts lines together.
class MessageLines {
 public:
  // `line` has no line break. `goes_on`: the next line belongs to the same message, as when several
  // lines were pasted. True: the message is whole, and Take gives it.
  bool Add(std::string_view line, bool goes_on = false);
  // A message has begun and is not whole.
  bool open() const { return open_; }
  // The text of the lines so far; the next line begins anew.
  ChatInputText Take();
  void Clear() { *this = MessageLines(); }

 private:
  std::string text_;
  bool open_ = false;
  bool quoted_ = false;   // between """
  bool several_ = false;  // not a plain line: no command
};

// "/set NAME VALUE": sets one of the settings below. kInvalidArgument: no such name, no number, or
// a value out of range; `vocabulary` as in SamplingOptions::Check.
Status SetChatOption(std::string_view given, int32_t vocabulary, sample::SamplingOptions* options);
// Their names and values, a line each.
std::string ListChatOptions(const sample::SamplingOptions& options);

}  // namespace penstock::cli
