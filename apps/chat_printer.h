// Prints replies of `penstock chat` as they come.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "reply/reply_parser.h"
#include "word_wrap.h"

namespace penstock::cli {

// Text of a model for a terminal: line breaks and tabs stay, other controls are escaped
// (base/printable.h).
std::string TerminalText(std::string_view text);

struct ChatPrinterOptions {
  bool terminal = false;  // controls are escaped
  bool colour = false;    // thinking is dim; else it stands between <think> and </think>
  bool thinking = true;   // shown; else one line says that there is some, on a terminal
};

// The parts of one reply after another.
class ChatPrinter {
 public:
  ChatPrinter(ChatPrinterOptions options, std::function<void(std::string_view)> write)
      : options_(options), write_(std::move(write)) {}

  void Add(const reply::ReplyDelta& delta);
  // The reply has ended: its last line, too.
  void End();

  // Breaks lines between words so that they fit `columns`; 0 switches this off.
  void SetColumns(size_t columns) { wrap_ = WordWrap(columns); }

  // `text` dim, where there is colour.
  std::string Dim(std::string_view text) const;

 private:
  void BeginThinking();
  void EndThinking();
  void Write(std::string_view text);

  const ChatPrinterOptions options_;
  const std::function<void(std::string_view)> write_;
  bool thinks_ = false;
  bool told_ = false;  // of thinking that is not shown
  bool line_begins_ = true;
  WordWrap wrap_{0};
};

}  // namespace penstock::cli
