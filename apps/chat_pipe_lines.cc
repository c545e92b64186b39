#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "chat_lines.h"

namespace penstock::cli {
namespace {

class PipeLines final : public ChatLines {
 public:
  explicit PipeLines(ChatSignals* signals) : signals_(signals) {}

  ChatLine Read(const char* prompt) override {
    (void)prompt;
    ChatLine line;
    while (true) {
      if (const size_t end = held_.find('\n', looked_at_); end != std::string::npos) {
        line.text = held_.substr(0, end);
        held_.erase(0, end + 1);
        looked_at_ = 0;
        break;
      }
      looked_at_ = held_.size();
      if (const int signal = Fill(); signal != 0) {
        return {.kind = ChatLine::Kind::kSignal, .signal = signal};
      }
      if (!ended_) continue;
      if (held_.empty()) return {.kind = ChatLine::Kind::kEnd};
      line.text.swap(held_);
      looked_at_ = 0;
      break;
    }
    if (line.text.ends_with('\r')) line.text.pop_back();
    return line;
  }

 private:
  // Reads more; the signal that came instead.
  int Fill() {
    std::array<pollfd, 2> polled = {{{STDIN_FILENO, POLLIN, 0}, {signals_->fd(), POLLIN, 0}}};
    if (poll(polled.data(), polled.size(), -1) <= 0) return 0;
    if (polled[1].revents != 0) {
      const int signal = signals_->Take();
      if (signal == SIGINT || signal == SIGTERM) return signal;
      if (signal == SIGTSTP) raise(SIGSTOP);
      return 0;
    }
    char block[1 << 16];
    const ssize_t got = read(STDIN_FILENO, block, sizeof block);
    if (got > 0) held_.append(block, static_cast<size_t>(got));
    const bool again = got < 0 && (errno == EINTR || errno == EAGAIN);
    ended_ = (got <= 0 && !again) || held_.size() > kLineBytesMax;
    return 0;
  }

  ChatSignals* const signals_;
  std::string held_;
  size_t looked_at_ = 0;  // bytes of held_ without a line break
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<ChatLines> NewPipeLines(ChatSignals* signals) {
  return std::make_unique<PipeLines>(signals);
}

}  // namespace penstock::cli
