// The signals of `penstock serve`, as something to poll.
//
//   SIGINT, SIGTERM    stop
//   SIGHUP             read the files of keys and certificate again
//   SIGUSR1, SIGUSR2   nothing; they would end the process otherwise
//   SIGPIPE            nothing: a client that left is an error of write
#pragma once

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/status.h"

namespace penstock::cli {

// Blocks the first three for every thread started later, so that they arrive here and nowhere else.
class Signals {
 public:
  Signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, number);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    for (const int number : {SIGPIPE, SIGUSR1, SIGUSR2}) signal(number, SIG_IGN);
    fd_ = signalfd(-1, &set, SFD_CLOEXEC);
    PENSTOCK_CHECK(fd_ >= 0);
  }
  ~Signals() { close(fd_); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int fd() const { return fd_; }
  // Whether one came that Wait has not given yet.
  bool IsPending() const {
    pollfd polled{fd_, POLLIN, 0};
    return poll(&polled, 1, 0) > 0;
  }
  // Blocks until one comes; its number.
  int Wait() const {
    signalfd_siginfo info{};
    while (read(fd_, &info, sizeof info) != sizeof info) {
    }
    return static_cast<int>(info.ssi_signo);
  }

 private:
  int fd_;
};

}  // namespace penstock::cli
