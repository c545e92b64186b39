#include "interruption.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>

#include "common/status.h"

namespace penstock {
namespace {

// Only makes system calls return.
constexpr int kWakeSignal = SIGUSR2;
constexpr int kWakeEveryMs = 50;

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

}  // namespace

Interruption::Interruption() {
  struct sigaction wake {};
  wake.sa_handler = [](int) {};
  sigaction(kWakeSignal, &wake, nullptr);  // without SA_RESTART
  const sigset_t set = StopSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  end_ = eventfd(0, EFD_CLOEXEC);
  PENSTOCK_CHECK(signals_ >= 0 && end_ >= 0);
  thread_ = std::thread([this] { Watch(); });
}

Interruption::~Interruption() {
  const uint64_t one = 1;
  PENSTOCK_CHECK(write(end_, &one, sizeof one) == sizeof one);
  thread_.join();
  close(end_);
  close(signals_);
}

Interruption::Stop::Stop(Interruption* interruption, std::function<void()> stop)
    : interruption_(interruption) {
  const std::lock_guard lock(interruption_->mutex_);
  interruption_->stop_ = std::move(stop);
  interruption_->reader_ = pthread_self();
  interruption_->reads_ = true;
}

Interruption::Stop::~Stop() {
  const std::lock_guard lock(interruption_->mutex_);
  interruption_->stop_ = [] {};
  interruption_->reads_ = false;
}

void Interruption::Watch() {
  std::array<pollfd, 2> polled = {{{signals_, POLLIN, 0}, {end_, POLLIN, 0}}};
  while (true) {
    // Again and again: a read may begin just after the stop was seen as not there yet.
    const int ready = poll(polled.data(), polled.size(), signal() != 0 ? kWakeEveryMs : -1);
    if (polled[1].revents != 0) return;
    const std::lock_guard lock(mutex_);
    signalfd_siginfo info{};
    if (ready > 0 && read(signals_, &info, sizeof info) == sizeof info) {
      const int number = static_cast<int>(info.ssi_signo);
      if (stop_ == nullptr || signal() != 0) DieBy(number);
      signal_.store(number, std::memory_order_release);
      stop_();
    }
    if (signal() != 0 && reads_) pthread_kill(reader_, kWakeSignal);
  }
}

}  // namespace penstock
