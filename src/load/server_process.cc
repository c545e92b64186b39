#include "load/server_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <thread>

#include "load/penstock_process.h"

namespace penstock::load {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kReadyBytesMax = 64 << 10;  // of output before the line that says it is ready

}  // namespace

Expected<std::unique_ptr<ServerProcess>> ServerProcess::Start(const std::vector<std::string>& args,
                                                              const Options& options) {
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
    return Status(StatusCode::kUnavailable, std::string("pipe: ") + strerror(errno));
  }
  std::vector<std::string> words = {"serve", "--host", "127.0.0.1", "--port", "0"};
  words.insert(words.end(), args.begin(), args.end());
  if (options.preload) words.emplace_back("--preload");
  std::unique_ptr<ServerProcess> server(new ServerProcess());
  const auto pid = SpawnPenstock(std::move(words), pipe_fds[1]);
  close(pipe_fds[1]);
  server->stdout_ = pipe_fds[0];
  server->ended_ = !pid.ok();
  PENSTOCK_RETURN_IF_ERROR(pid.status());
  server->pid_ = *pid;
  PENSTOCK_RETURN_IF_ERROR(server->ReadUntilReady(options.ready_timeout_s));
  return server;
}

// "penstock 0.1.0 ready on http://127.0.0.1:40123 serving ..."
Status ServerProcess::ReadUntilReady(double timeout_s) {
  constexpr std::string_view kBefore = "ready on http://127.0.0.1:";
  const auto deadline = Clock::now() + std::chrono::duration<double>(timeout_s);
  std::string text;
  while (text.size() < kReadyBytesMax) {
    const size_t at = text.find(kBefore);
    if (at != std::string::npos && text.find('\n', at) != std::string::npos) {
      const char* begin = text.data() + at + kBefore.size();
      std::from_chars(begin, text.data() + text.size(), target_.port);
      return Status::Ok();
    }
    const std::chrono::duration<double, std::milli> left = deadline - Clock::now();
    pollfd fd{stdout_, POLLIN, 0};
    if (left.count() <= 0 || poll(&fd, 1, static_cast<int>(left.count()) + 1) == 0) {
      return {StatusCode::kUnavailable,
              fmt::format("the server was not ready after {} s", timeout_s)};
    }
    char chunk[4096];
    const ssize_t size = read(stdout_, chunk, sizeof chunk);
    if (size == 0) return {StatusCode::kUnavailable, "the server ended before it was ready"};
    if (size > 0) text.append(chunk, static_cast<size_t>(size));
  }
  return {StatusCode::kUnavailable, "the server never said where it listens"};
}

bool ServerProcess::Reap(bool wait) {
  if (ended_) return true;
  int status = 0;
  pid_t reaped = 0;
  while ((reaped = waitpid(pid_, &status, wait ? 0 : WNOHANG)) < 0 && errno == EINTR) {
  }
  if (reaped == 0) return false;
  ended_ = true;
  exit_code_ = ExitCodeOf(status);
  return true;
}

bool ServerProcess::Running() { return !Reap(false); }

int ServerProcess::Stop(double timeout_s) {
  const auto deadline = Clock::now() + std::chrono::duration<double>(timeout_s);
  if (!Reap(false)) kill(pid_, SIGTERM);
  while (!Reap(false)) {
    if (Clock::now() > deadline) {
      kill(pid_, SIGKILL);
      Reap(true);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return exit_code_;
}

ServerProcess::~ServerProcess() {
  Stop();
  if (stdout_ >= 0) close(stdout_);
}

}  // namespace penstock::load
