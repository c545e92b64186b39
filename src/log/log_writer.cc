#include "log/log_writer.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <thread>
#include <utility>

namespace penstock {

bool WriteWhole(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {  // another program has made it non-blocking
      pollfd polled{fd, POLLOUT, 0};
      ::poll(&polled, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

LogWriter* LogWriter::Start(Options options) {
  auto* const writer = new LogWriter(std::move(options));
  std::thread([writer] { writer->Run(); }).detach();
  return writer;
}

void LogWriter::Write(std::string_view line) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (queue_.size() + writing_bytes_ + line.size() <= options_.queue_bytes_max) {
      queue_.append(line);
      queued_bytes_ += line.size();
      wake_.notify_one();
      return;
    }
  } catch (...) {
    // No memory for the line.
  }
  dropped_.fetch_add(1, std::memory_order_relaxed);
}

bool LogWriter::Flush(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return done_.wait_for(lock, timeout, [this, end = queued_bytes_] { return done_bytes_ >= end; });
}

void LogWriter::Run() {
  pthread_setname_np(pthread_self(), "penstock-log");
  // Signals are for other threads. A reader that has gone is an error of write, not a SIGPIPE.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::string lines;
  uint64_t told = 0;  // of dropped()
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return !queue_.empty(); });
      lines.swap(queue_);
      writing_bytes_ = lines.size();
    }
    options_.before_write();
    if (!WriteWhole(options_.fd, lines)) {
      const auto lost = static_cast<uint64_t>(std::count(lines.begin(), lines.end(), '\n'));
      dropped_.fetch_add(lost, std::memory_order_relaxed);
      told += lost;  // a line about it would be lost, too
    }
    {
      const std::lock_guard lock(mutex_);
      writing_bytes_ = 0;
      done_bytes_ += lines.size();
      done_.notify_all();
    }
    lines.clear();
    if (const uint64_t now = dropped(); now > told) {
      options_.on_dropped(now - told);
      told = now;
    }
  }
}

}  // namespace penstock
