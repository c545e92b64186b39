// The signals of `penstock chat`, as something to poll.
//
//   SIGINT             stops a reply; at the prompt it drops the line
//   SIGTERM            leaves
//   SIGTSTP, SIGCONT   the terminal is given back while the process is stopped
//   SIGWINCH           the terminal has another width
#pragma once

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/status.h"

namespace penstock::cli {

class ChatSignals {
 public:
  // To be made before any other thread: theirs do not get the signals then.
  ChatSignals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : {SIGINT, SIGTERM, SIGTSTP, SIGCONT, SIGWINCH}) sigaddset(&set, number);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    PENSTOCK_CHECK(fd_ >= 0);
  }
  ~ChatSignals() { close(fd_); }
  ChatSignals(const ChatSignals&) = delete;
  ChatSignals& operator=(const ChatSignals&) = delete;

  int fd() const { return fd_; }
  // The number of one that has come; 0: none has.
  int Take() {
    signalfd_siginfo info{};
    return read(fd_, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  int fd_ = -1;
};

}  // namespace penstock::cli
