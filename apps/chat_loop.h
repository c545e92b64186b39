// The conversation of one run of `penstock chat`: reads what is typed, does it, prints replies.
#pragma once

#include <string>

#include "chat_lines.h"
#include "chat_message.h"
#include "chat_printer.h"
#include "chat_signals.h"
#include "conversation.h"

namespace penstock::cli {

struct ChatLoopOptions {
  std::string name;  // of the model, as it was given
  ChatPrinterOptions printer;
  bool interactive = false;  // input and output are a terminal
  bool verbose = false;      // a line of timings after each reply
  int32_t context = 0;       // 0: not known
};

class ChatLoop {
 public:
  // `session` and `signals` must outlive it.
  ChatLoop(ChatLoopOptions options, Conversation* session, ChatSignals* signals);

  // One message and its reply. Gives the exit code.
  Expected<int> Once(const std::string& message);
  // Until the input ends, or a command or a signal leaves. Without a terminal the first error ends
  // it, with a terminal it is shown.
  Expected<int> Run();
  // Standard input to its end, as one message. False: a signal came, see signal().
  bool ReadAll(std::string* message);
  int signal() const { return signal_; }

 private:
  void Write(std::string_view text) const;
  // To the person, beside the replies.
  void Note(const std::string& text) const;
  // The lines of commands that show something.
  void Show(const std::string& text) const;
  Status Print(const Expected<ChatReply>& reply);
  void PrintEnd(const ChatReply& reply) const;
  void FitPrinter();
  Status Say(const std::string& message);
  // True: leave.
  bool TakeSignal(int signal);
  Status Do(const ChatInputText& input);
  Status DoCommand(const ChatInputText& input);
  void SetSystem(const std::string& text);

  const ChatLoopOptions options_;
  Conversation& session_;
  ChatSignals& signals_;
  ChatPrinter printer_;
  bool leaves_ = false;
  bool interrupted_ = false;  // by the last key
  int signal_ = 0;            // that ends the command
};

}  // namespace penstock::cli
