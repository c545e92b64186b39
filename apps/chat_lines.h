// Where `penstock chat` reads its lines: a terminal with editing and history, or a pipe.
#pragma once

#include <memory>
#include <string>

#include "chat_signals.h"

namespace penstock::cli {

struct ChatLine {
  enum class Kind { kText, kEnd, kSignal };
  Kind kind = Kind::kText;
  std::string text;      // without its line break; valid UTF-8 from a terminal, any bytes else
  bool goes_on = false;  // the next line belongs to it: they were pasted together
  int signal = 0;        // SIGINT or SIGTERM, which came while the line was awaited
};

class ChatLines {
 public:
  virtual ~ChatLines() = default;
  // `prompt` is shown by a terminal; it must live as long as the call.
  virtual ChatLine Read(const char* prompt) = 0;
  // For the arrow keys, as one line.
  virtual void Remember(const std::string& line) { (void)line; }
};

// `signals` must outlive them. Lines of standard input; of a pipe one may have up to kLineBytesMax.
inline constexpr size_t kLineBytesMax = size_t{64} << 20;
std::unique_ptr<ChatLines> NewPipeLines(ChatSignals* signals);
// Standard input and output are a terminal. Null: it cannot be used so. In the program, which alone
// links libedit.
std::unique_ptr<ChatLines> NewTerminalLines(ChatSignals* signals);

}  // namespace penstock::cli
