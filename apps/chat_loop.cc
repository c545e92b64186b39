#include "chat_loop.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/printable.h"
#include "cli/command_line.h"
#include "program_entry.h"

namespace penstock::cli {
namespace {

constexpr const char* kHelp =
    "  /system TEXT      instructions for the model, from the next message on; alone: shows them\n"
    "  /retry            the last reply once more\n"
    "  /reset, /clear    a new conversation; the instructions stay\n"
    "  /set NAME VALUE   a setting, such as: /set temperature 0.7; alone: shows all\n"
    "  /help             this\n"
    "  /exit, /quit      leaves, as Ctrl-D does\n"
    "  \"\"\"               begins and ends a message of several lines\n"
    "  \\ at the end      the message goes on in the next line\n"
    "  //text            a message that begins with /\n"
    "  Ctrl-C            stops a reply; what was said of it stays\n";

std::string Tokens(int64_t count) {
  return fmt::format("{} token{}", count, count == 1 ? "" : "s");
}

std::string Timings(const generate::DecodeUsage& usage) {
  std::string text = fmt::format("[{}", Tokens(usage.completion_tokens));
  if (usage.completion_tokens > 1 && usage.decode_s > 0) {
    text += fmt::format(", {:.1f} a second", (usage.completion_tokens - 1) / usage.decode_s);
  }
  return text + fmt::format("; the first after {:.0f} ms; prompt {}, {} cached]",
                            (usage.queue_s + usage.prompt_s) * 1e3, Tokens(usage.prompt_tokens),
                            usage.cached_tokens);
}

}  // namespace

ChatLoop::ChatLoop(ChatLoopOptions options, Conversation* session, ChatSignals* signals)
    : options_(std::move(options)),
      session_(*session),
      signals_(*signals),
      printer_(options_.printer, [this](std::string_view text) { Write(text); }) {}

void ChatLoop::Write(std::string_view text) const {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void ChatLoop::Show(const std::string& text) const {
  std::fputs(text.c_str(), options_.interactive ? stdout : stderr);
}

void ChatLoop::Note(const std::string& text) const {
  if (options_.interactive) {
    Write(printer_.Dim(text) + "\n");
  } else {
    std::fprintf(stderr, "penstock chat: %s\n", text.c_str());
  }
}

void ChatLoop::PrintEnd(const ChatReply& reply) const {
  const generate::DecodeUsage& usage = reply.usage;
  if (reply.signal != 0) {
    if (!options_.interactive) return;
    Note(reply.kept ? "(stopped; what was said stays in the conversation)"
                    : "(stopped before the reply; the message is not in the conversation)");
  } else if (reply.finish == generate::FinishReason::kContext && options_.context > 0) {
    Note(fmt::format(
        "the context is full: {} of conversation and {} of this reply are its {}. "
        "/reset begins a new conversation; a larger --context may help",
        Tokens(usage.prompt_tokens), Tokens(usage.completion_tokens), options_.context));
  } else if (reply.finish == generate::FinishReason::kLength ||
             reply.finish == generate::FinishReason::kContext) {
    Note(fmt::format("(the reply was cut after {}; --max-tokens{} allows more)",
                     Tokens(usage.completion_tokens),
                     options_.interactive ? " or /set max-tokens" : ""));
  }
  if (!options_.verbose) return;
  if (options_.interactive) {
    Note(Timings(usage));
  } else {
    std::fprintf(stderr, "%s\n", Timings(usage).c_str());
  }
}

// Sets the width at which lines wrap: that of the terminal, or 0 (no wrapping) if the output is not
// a terminal that can erase a word.
void ChatLoop::FitPrinter() {
  winsize size{};
  const char* const kind = std::getenv("TERM");
  const bool fits = options_.interactive && kind != nullptr && std::string_view(kind) != "dumb" &&
                    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  printer_.SetColumns(fits ? size.ws_col : 0);
}

Status ChatLoop::Print(const Expected<ChatReply>& reply) {
  if (!reply.ok()) {
    if (reply.status().code() == StatusCode::kInvalidArgument) return reply.status();
    return reply.status().Annotate("no reply");
  }
  printer_.End();
  PrintEnd(*reply);
  if (reply->signal == SIGTERM || (reply->signal != 0 && !options_.interactive)) {
    signal_ = reply->signal;
    leaves_ = true;
  }
  if (options_.interactive) Write("\n");
  if (std::ferror(stdout) != 0) {
    leaves_ = true;
    return Status(StatusCode::kUnavailable, "standard output cannot be written");
  }
  return Status::Ok();
}

Status ChatLoop::Say(const std::string& message) {
  FitPrinter();
  return Print(
      session_.Say(message, [this](const reply::ReplyDelta& delta) { printer_.Add(delta); }));
}

void ChatLoop::SetSystem(const std::string& text) {
  if (text.empty()) {
    Show(session_.system().empty() ? "no instructions (/system TEXT gives some)\n"
                                   : TerminalText(session_.system()) + "\n");
    return;
  }
  session_.SetSystem(text);
  if (options_.interactive) Note("(from the next message on; /reset forgets the earlier ones)");
}

Status ChatLoop::DoCommand(const ChatInputText& input) {
  const std::string& name = input.name;
  const auto is = [&](std::string_view one, std::string_view other) {
    return name == one || name == other;
  };
  if (name == "system") {
    SetSystem(input.text);
    return Status::Ok();
  }
  if (name == "set" && !input.text.empty()) {
    return session_.Set(input.text);
  }
  const bool alone = is("reset", "clear") || is("exit", "quit") || is("bye", "q") ||
                     is("help", "?") || is("retry", "set");
  if (!alone) {
    return Status::InvalidArgument(
        fmt::format("there is no command /{0} (see /help); //{0} is a message that begins with /",
                    Printable(name, 200)));
  }
  if (!input.text.empty()) {
    return Status::InvalidArgument(fmt::format("/{} takes no arguments", name));
  }
  if (name == "retry") {
    FitPrinter();
    return Print(session_.Retry([this](const reply::ReplyDelta& delta) { printer_.Add(delta); }));
  }
  if (name == "set") {
    Show(session_.Settings());
  } else if (is("help", "?")) {
    Show(kHelp);
  } else if (is("reset", "clear")) {
    session_.Reset();
    if (options_.interactive) Note("(a new conversation)");
  } else {
    leaves_ = true;
  }
  return Status::Ok();
}

Status ChatLoop::Do(const ChatInputText& input) {
  if (input.kind == ChatInputText::Kind::kNothing) return Status::Ok();
  const Status status =
      input.kind == ChatInputText::Kind::kCommand ? DoCommand(input) : Say(input.text);
  if (status.ok() || !options_.interactive || leaves_) return status;
  printer_.End();  // of a reply that failed
  Write(Printable(status.message()) + "\n");
  return Status::Ok();
}

bool ChatLoop::TakeSignal(int signal) {
  if (signal != SIGINT || !options_.interactive || interrupted_) {
    signal_ = signal;
    return true;
  }
  interrupted_ = true;
  Write("to leave: /exit, Ctrl-D, or Ctrl-C once more\n");
  return false;
}

Expected<int> ChatLoop::Once(const std::string& message) {
  if (message.find_first_not_of(" \t\r\n") == std::string::npos) {
    return Status::InvalidArgument("the message is empty");
  }
  PENSTOCK_RETURN_IF_ERROR(Say(message));
  return signal_ == 0 ? kExitOk : kExitSignal + signal_;
}

bool ChatLoop::ReadAll(std::string* message) {
  const auto lines = NewPipeLines(&signals_);
  if (isatty(STDIN_FILENO) == 1) Note("reading the message from the terminal; end with Ctrl-D");
  for (bool first = true;; first = false) {
    ChatLine line = lines->Read("");
    if (line.kind == ChatLine::Kind::kSignal) signal_ = line.signal;
    if (line.kind != ChatLine::Kind::kText) return line.kind == ChatLine::Kind::kEnd;
    if (!first) *message += '\n';
    *message += line.text;
  }
}

Expected<int> ChatLoop::Run() {
  std::unique_ptr<ChatLines> lines;
  if (options_.interactive && Program().terminal_lines != nullptr) {
    lines = Program().terminal_lines(&signals_);
  }
  if (lines == nullptr) lines = NewPipeLines(&signals_);
  if (options_.interactive) {
    const std::string context =
        options_.context > 0 ? fmt::format(", {} of context", Tokens(options_.context)) : "";
    Note(fmt::format("{}{}. /help lists the commands, Ctrl-D leaves.", Printable(options_.name),
                     context));
  } else if (isatty(STDIN_FILENO) == 1) {
    Note("each line from the terminal is a message; end with Ctrl-D");
  }
  MessageLines message;
  while (!leaves_) {
    const ChatLine line = lines->Read(message.open() ? "... " : ">>> ");
    if (line.kind == ChatLine::Kind::kSignal) {
      message.Clear();
      if (TakeSignal(line.signal)) break;
      continue;
    }
    const bool ended = line.kind == ChatLine::Kind::kEnd;
    if (ended && (options_.interactive || !message.open())) break;
    leaves_ = ended;
    interrupted_ = false;
    if (!ended) {
      if (line.text.find_first_not_of(" \t") != std::string::npos) lines->Remember(line.text);
      if (!message.Add(line.text, line.goes_on)) continue;
    }
    PENSTOCK_RETURN_IF_ERROR(Do(message.Take()));
  }
  return signal_ == 0 ? kExitOk : kExitSignal + signal_;
}

}  // namespace penstock::cli
