// Lines of a terminal, edited with libedit.
#include <histedit.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "chat_lines.h"

namespace penstock::cli {
namespace {

constexpr int kHistoryLines = 1000;
constexpr wint_t kUnreadable = 0xfffd;  // the replacement character

class TerminalLines final : public ChatLines {
 public:
  explicit TerminalLines(ChatSignals* signals) : signals_(signals) {}
  ~TerminalLines() override {
    if (editor_ != nullptr) el_end(editor_);
    if (history_ != nullptr) history_end(history_);
  }

  bool Open();
  ChatLine Read(const char* prompt) override;
  void Remember(const std::string& line) override {
    HistEvent event;
    history(history_, &event, H_ENTER, line.c_str());
  }

 private:
  static TerminalLines* Of(EditLine* editor) {
    void* self = nullptr;
    el_get(editor, EL_CLIENTDATA, &self);
    return static_cast<TerminalLines*>(self);
  }
  static char* Prompt(EditLine* editor) { return const_cast<char*>(Of(editor)->prompt_); }
  static int GetCharacter(EditLine* editor, wchar_t* out) { return Of(editor)->NextCharacter(out); }
  static unsigned char BeginPaste(EditLine* editor, wint_t) {
    Of(editor)->pastes_ = true;
    return CC_NORM;
  }
  static unsigned char EndPaste(EditLine* editor, wint_t) {
    Of(editor)->pastes_ = false;
    return CC_NORM;
  }

  void Bind();
  // 1: a character; 0: the end; -1: a signal, in signal_.
  int NextCharacter(wchar_t* out);
  // Waits for input. -1: a signal, as above; 0: there is input; 1: neither.
  int Wait();
  // The next byte; -1: none.
  int NextByte();
  // Terminals mark what is pasted if they are asked to.
  void MarkPastes(bool on) {
    if (!marks_pastes_) return;
    std::fputs(on ? "\x1b[?2004h" : "\x1b[?2004l", stdout);
    std::fflush(stdout);
  }

  ChatSignals* const signals_;
  EditLine* editor_ = nullptr;
  History* history_ = nullptr;
  const char* prompt_ = "";
  int signal_ = 0;
  bool pastes_ = false;
  bool goes_on_ = false;
  bool marks_pastes_ = false;
};

bool TerminalLines::Open() {
  // libedit takes the encoding from the locale.
  if (std::setlocale(LC_CTYPE, "") == nullptr || MB_CUR_MAX == 1) {
    std::setlocale(LC_CTYPE, "C.UTF-8");
  }
  const char* const kind = std::getenv("TERM");
  marks_pastes_ = kind != nullptr && *kind != '\0' && std::strcmp(kind, "dumb") != 0;
  editor_ = el_init("penstock", stdin, stdout, stderr);
  history_ = history_init();
  if (editor_ == nullptr || history_ == nullptr) return false;
  HistEvent event;
  history(history_, &event, H_SETSIZE, kHistoryLines);
  history(history_, &event, H_SETUNIQUE, 1);
  el_set(editor_, EL_CLIENTDATA, this);
  el_set(editor_, EL_PROMPT, Prompt);
  el_set(editor_, EL_EDITOR, "emacs");
  el_set(editor_, EL_HIST, history, history_);
  el_set(editor_, EL_GETCFN, GetCharacter);
  Bind();
  el_source(editor_, nullptr);  // ~/.editrc
  return true;
}

void TerminalLines::Bind() {
  el_wset(editor_, EL_ADDFN, L"paste-begin", L"Begin of a paste", BeginPaste);
  el_wset(editor_, EL_ADDFN, L"paste-end", L"End of a paste", EndPaste);
  static constexpr const char* kKeys[][2] = {
      {"\\e[200~", "paste-begin"},  {"\\e[201~", "paste-end"},         {"^I", "ed-insert"},
      {"^R", "em-inc-search-prev"}, {"\\e[3~", "ed-delete-next-char"}, {"\\e[1;5C", "em-next-word"},
      {"\\e[1;5D", "ed-prev-word"}, {"\\e[H", "ed-move-to-beg"},       {"\\eOH", "ed-move-to-beg"},
      {"\\e[1~", "ed-move-to-beg"}, {"\\e[F", "ed-move-to-end"},       {"\\eOF", "ed-move-to-end"},
      {"\\e[4~", "ed-move-to-end"},
  };
  for (const auto& [key, does] : kKeys) el_set(editor_, EL_BIND, key, does, nullptr);
}

int TerminalLines::Wait() {
  std::array<pollfd, 2> polled = {{{STDIN_FILENO, POLLIN, 0}, {signals_->fd(), POLLIN, 0}}};
  if (poll(polled.data(), polled.size(), -1) <= 0) return 1;
  if (polled[1].revents == 0) return 0;
  switch (const int signal = signals_->Take()) {
    case SIGINT:
    case SIGTERM:
      signal_ = signal;
      return -1;
    case SIGTSTP:
      MarkPastes(false);
      el_set(editor_, EL_PREP_TERM, 0);
      raise(SIGSTOP);
      break;
    case SIGCONT:
      el_set(editor_, EL_PREP_TERM, 1);
      MarkPastes(true);
      el_set(editor_, EL_REFRESH);
      break;
    case SIGWINCH:
      el_resize(editor_);
      break;
    default:
      break;
  }
  return 1;
}

int TerminalLines::NextByte() {
  unsigned char byte = 0;
  return read(STDIN_FILENO, &byte, 1) == 1 ? byte : -1;
}

int TerminalLines::NextCharacter(wchar_t* out) {
  for (int came = 1; came != 0;) {
    came = Wait();
    if (came < 0) return -1;
  }
  const int lead = NextByte();
  if (lead < 0) return 0;
  const int more = lead < 0x80 ? 0 : lead >= 0xf0 ? 3 : lead >= 0xe0 ? 2 : lead >= 0xc2 ? 1 : -1;
  auto code = static_cast<wint_t>(more <= 0 ? lead : lead & (0x3f >> more));
  bool whole = more >= 0;
  for (int i = 0; i < more && whole; ++i) {
    const int next = NextByte();
    whole = next >= 0 && (next & 0xc0) == 0x80;
    code = code << 6 | static_cast<wint_t>(next & 0x3f);
  }
  if (!whole || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) code = kUnreadable;
  if (pastes_ && (code == '\r' || code == '\n')) goes_on_ = true;
  *out = static_cast<wchar_t>(code);
  return 1;
}

ChatLine TerminalLines::Read(const char* prompt) {
  prompt_ = prompt;
  signal_ = 0;
  goes_on_ = false;
  MarkPastes(true);
  el_resize(editor_);
  // Before the prompt is seen: what is typed at once is not echoed twice.
  el_set(editor_, EL_PREP_TERM, 1);
  int length = 0;
  const char* const got = el_gets(editor_, &length);
  MarkPastes(false);
  if (signal_ != 0 || got == nullptr || length <= 0) {
    std::fputs("\n", stdout);
    std::fflush(stdout);
    pastes_ = false;
    if (signal_ != 0) return {.kind = ChatLine::Kind::kSignal, .signal = signal_};
    return {.kind = ChatLine::Kind::kEnd};
  }
  ChatLine line;
  line.text.assign(got, static_cast<size_t>(length));
  while (line.text.ends_with('\n') || line.text.ends_with('\r')) line.text.pop_back();
  line.goes_on = goes_on_;
  return line;
}

}  // namespace

std::unique_ptr<ChatLines> NewTerminalLines(ChatSignals* signals) {
  auto lines = std::make_unique<TerminalLines>(signals);
  if (!lines->Open()) return nullptr;
  return lines;
}

}  // namespace penstock::cli
