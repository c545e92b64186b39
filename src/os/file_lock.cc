#include "os/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include "log/log.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kPoll{100};

}  // namespace

Expected<std::optional<FileLock>> FileLock::Try(const std::string& path) {
  std::error_code ignored;
  fs::create_directories(fs::path(path).parent_path(), ignored);
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return Status::Internal("cannot open " + path + ": " + std::strerror(errno));
  for (;;) {
    if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return std::optional<FileLock>(FileLock(fd));
    if (errno == EINTR) continue;
    const int error = errno;
    ::close(fd);
    if (error == EWOULDBLOCK) return std::optional<FileLock>();
    return Status::Internal("cannot lock " + path + ": " + std::strerror(error));
  }
}

Expected<FileLock> FileLock::Take(const std::string& path, const std::function<bool()>& go_on) {
  for (bool told = false;; told = true) {
    PENSTOCK_ASSIGN_OR_RETURN(auto lock, Try(path));
    if (lock) return *std::move(lock);
    if (!told) LogInfo("waiting for another process that has {}", path);
    if (go_on && !go_on())
      return Status(StatusCode::kCancelled, "given up while another process had the lock");
    std::this_thread::sleep_for(kPoll);
  }
}

FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace penstock
