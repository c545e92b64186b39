// ServerProcess: `penstock serve` as a child, on a free port. One thread.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "load/http_load.h"

namespace penstock::load {

class ServerProcess {
 public:
  struct Options {
    double ready_timeout_s = 120;
    bool preload = true;  // it is ready when its models are loaded
  };
  // Starts the server with `args` ("--model", "x", ...) and waits until it is ready. Its log goes
  // to this process's stderr. kUnavailable: it ended, or was not ready in time.
  static Expected<std::unique_ptr<ServerProcess>> Start(const std::vector<std::string>& args) {
    return Start(args, Options());
  }
  static Expected<std::unique_ptr<ServerProcess>> Start(const std::vector<std::string>& args,
                                                        const Options& options);
  // As Stop().
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  pid_t pid() const { return pid_; }
  const HttpTarget& target() const { return target_; }
  // False once the process has ended, by itself or by Stop().
  bool Running();
  // SIGTERM, and SIGKILL after `timeout_s`. The exit code, or 128 + the signal that ended it.
  int Stop(double timeout_s = 60);

 private:
  ServerProcess() = default;
  Status ReadUntilReady(double timeout_s);
  bool Reap(bool wait);

  pid_t pid_ = -1;
  int stdout_ = -1;
  bool ended_ = false;
  int exit_code_ = -1;
  HttpTarget target_;
};

}  // namespace penstock::load
