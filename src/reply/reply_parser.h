// From the text a chat model generates to the parts of an answer: reasoning, content, tool calls,
// told as the text comes.
//
// Text is given out at once, but for what may still become a marker: a beginning of one ("<th"),
// the whitespace before it, and a call that is being read. The deltas are the same however the text
// was cut, once neighbours of a kind are joined.
//
// No byte is lost or told twice: the texts of content, reasoning, markup and ends of calls, in
// their order, are what was added. What looks like a call and is none (cut or broken JSON, a tool
// the request does not have, more than a limit) is content, byte for byte, and so is text around
// calls.
//
// Thinking is a block at the beginning of the reply, or several in a row; a marker behind content
// is content. Calls inside thinking stay reasoning. A block that never ends is reasoning. The
// whitespace inside of the markers and behind the last is markup.
//
// Calls, by format.tools (reply_format.h):
//   kHermes, kQwenCoder  in <tool_call>, several in sequence, or several in one tag; each of the
//                        two forms is understood for both; kQwenCoder also without <tool_call>
//   kLlama               behind <|python_tag|>, at the beginning of a line, or behind a call, with
//                        ';' or whitespace between them
//   kMistral, ..Names    an array, one object, or a name and arguments, behind [TOOL_CALLS]
// A call ends with its JSON or </function>; tags, brackets and separators behind it are markup, as
// is whitespace before it, behind it at the end, and between calls. It stands once its name and its
// arguments are complete, though the brackets around them be missing or broken. Arguments are told
// as the model wrote them, not printed again.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "reply/call_reader.h"
#include "reply/reply_format.h"
#include "reply/tool_set.h"

namespace penstock::reply {

struct ReplyDelta {
  enum class Kind {
    kContent,        // text
    kReasoning,      // text
    kCallBegin,      // call, id, name
    kCallArguments,  // call, text: the next part of the JSON
    kCallEnd,        // call, complete; text: the model's own words for this call
    kMarkup,         // text: markers, and the whitespace around them; no part of an answer
  };
  Kind kind = Kind::kContent;
  int call = -1;  // from 0, in the order of the text
  std::string text;
  std::string id, name;
  // False only with `streams_arguments`: the reply ended or broke off inside of the arguments. What
  // came of them is told; what follows is content.
  bool complete = true;
};

struct ReplyLimits {
  size_t call_bytes_max = 256 << 10;  // of the text of one call; a longer one is none
  int calls_max = 128;                // what comes behind them is content; at most 1000
  CallLimits call;
};

struct ReplyOptions {
  ReplyFormat format;
  // The request's tools. None, or null, where it has none or wants no call: then all is text.
  std::shared_ptr<const ToolSet> tools;
  uint64_t id_seed = 0;  // of ids of calls (call_id.h); another one for each reply
  // False: a call is told when it stands, so that a broken one is content as a whole. For answers
  // that are sent whole.
  // True: arguments are told as they come, as soon as the name is known; of the Qwen3-Coder form a
  // parameter at a time, or text as it comes where the schema admits strings only. A call that
  // breaks off inside of its arguments has an end that is not complete.
  bool streams_arguments = false;
  ReplyLimits limits;
};

// One reply. Not thread-safe.
class ReplyParser {
 public:
  explicit ReplyParser(ReplyOptions options);
  ReplyParser(ReplyParser&&) = default;

  // The next text: whole UTF-8 characters, any number of them. Appends to *out.
  void Add(std::string_view text, std::vector<ReplyDelta>* out);
  // No text follows: appends what was held back. Nothing is to be called after it.
  void Finish(std::vector<ReplyDelta>* out);

  int calls() const { return calls_; }  // begun so far
  bool thinking() const { return state_ == State::kThinking; }
  size_t held_bytes() const;  // of text added and not given out yet

 private:
  enum class State { kText, kThinking, kOpened, kCall };
  enum class Marker { kThink, kTag, kTagEnd, kFunction, kPython, kObject, kMistral, kArrayEnd };
  enum class Match { kNone, kPart, kWhole };

  void Step(char c);
  void StepText(char c);
  void StepThinking(char c);
  void StepOpened(char c);
  void StepCall(char c);

  bool CallsOn() const;
  bool Watches() const;
  bool IsGap(char c) const;
  Match FindMarker(std::string_view text, Marker* marker) const;
  void Open(Marker marker);
  void Start(std::unique_ptr<CallReader> reader, std::string_view first);
  // Tells of the call at hand what is known of it.
  void Tell();
  void End(bool complete);
  // The call at hand stands.
  void Accept();
  // With `c`, or at the end of the text, it goes no further.
  void Break(const char* c);

  void Emit(ReplyDelta::Kind kind, std::string_view text, int call = -1);
  void EmitContent(std::string_view text);
  // Gives out the first byte of partial_ as text, and takes the others again.
  void Retry();

  const ReplyOptions options_;
  std::vector<ReplyDelta>* out_ = nullptr;
  State state_ = State::kText;

  std::string gap_;      // whitespace, and separators of calls, that may stand before a marker
  std::string partial_;  // the beginning of a marker
  bool trims_ = false;   // whitespace is markup: a marker of thinking stands before it
  bool spoke_ = false;   // there was content or a call
  bool line_begins_ = true;
  bool behind_call_ = false;  // nothing but gaps and markers came after a call
  bool tag_open_ = false;     // the </tool_call> of a call is still to come
  bool in_array_ = false;     // the ] of a call

  Marker opened_by_ = Marker::kTag;
  bool array_ = false;  // the call at hand is in an array
  std::string raw_;     // its text, from the marker on
  std::unique_ptr<CallReader> reader_;
  size_t reader_at_ = 0;  // where its text begins in raw_
  bool begun_ = false;    // kCallBegin is told
  size_t told_ = 0;       // bytes of its arguments that are told
  int calls_ = 0;
};

}  // namespace penstock::reply
