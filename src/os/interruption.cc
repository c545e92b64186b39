#include "os/interruption.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>

#include "base/status.h"

namespace penstock {
namespace {

sigset_t StopSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

[[noreturn]] void DieBy(int number) {
  signal(number, SIG_DFL);
  const sigset_t set = StopSignals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  raise(number);
  _exit(128 + number);
}

void Raise(int eventfd) {
  const uint64_t one = 1;
  PENSTOCK_CHECK(write(eventfd, &one, sizeof one) == sizeof one);
}

}  // namespace

Interruption::Interruption() {
  const sigset_t set = StopSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  came_ = eventfd(0, EFD_CLOEXEC);
  end_ = eventfd(0, EFD_CLOEXEC);
  PENSTOCK_CHECK(signals_ >= 0 && came_ >= 0 && end_ >= 0);
  thread_ = std::thread([this] { Watch(); });
}

Interruption::~Interruption() {
  Raise(end_);
  thread_.join();
  for (const int fd : {signals_, came_, end_}) close(fd);
}

Interruption::Stop::Stop(Interruption* interruption, std::function<void()> stop)
    : interruption_(interruption) {
  const std::lock_guard lock(interruption_->mutex_);
  interruption_->stop_ = std::move(stop);
}

Interruption::Stop::~Stop() {
  const std::lock_guard lock(interruption_->mutex_);
  interruption_->stop_ = [] {};
}

void Interruption::Watch() {
  std::array<pollfd, 2> polled = {{{signals_, POLLIN, 0}, {end_, POLLIN, 0}}};
  while (true) {
    if (poll(polled.data(), polled.size(), -1) <= 0) continue;
    if (polled[1].revents != 0) return;
    const std::lock_guard lock(mutex_);
    signalfd_siginfo info{};
    if (read(signals_, &info, sizeof info) != sizeof info) continue;
    const int number = static_cast<int>(info.ssi_signo);
    if (stop_ == nullptr || signal() != 0) DieBy(number);
    signal_.store(number, std::memory_order_release);
    stop_();
    Raise(came_);
  }
}

}  // namespace penstock
