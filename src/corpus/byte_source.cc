#include "corpus/byte_source.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace penstock::corpus {
namespace {

class FileSource : public ByteSource {
 public:
  FileSource(int fd, int stop_fd) : fd_(fd), stop_fd_(stop_fd) {}
  ~FileSource() override {
    if (fd_ != STDIN_FILENO) close(fd_);
  }

  Expected<size_t> Read(char* data, size_t size) override {
    while (true) {
      if (stop_fd_ >= 0) PENSTOCK_RETURN_IF_ERROR(WaitForBytes());
      const ssize_t n = read(fd_, data, size);
      if (n >= 0) {
        disk_bytes_ += n;
        return static_cast<size_t>(n);
      }
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return Status(StatusCode::kUnavailable, strerror(errno));
      // Standard input that another program made non-blocking.
      PENSTOCK_RETURN_IF_ERROR(WaitForBytes());
    }
  }
  int64_t disk_bytes() const override { return disk_bytes_; }

 private:
  Status WaitForBytes() const {
    pollfd waits[2] = {{stop_fd_, POLLIN, 0}, {fd_, POLLIN, 0}};
    while (poll(waits, 2, -1) < 0) {
      if (errno != EINTR) return {StatusCode::kUnavailable, strerror(errno)};
    }
    if (waits[0].revents != 0) return {StatusCode::kCancelled, "stopped"};
    return Status::Ok();
  }

  int fd_;
  int stop_fd_;
  int64_t disk_bytes_ = 0;
};

}  // namespace

Expected<std::unique_ptr<ByteSource>> OpenFile(const std::string& name, int stop_fd) {
  if (name == "-") {
    return std::unique_ptr<ByteSource>(std::make_unique<FileSource>(STDIN_FILENO, stop_fd));
  }
  const int fd = open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Status::NotFound(strerror(errno));
  auto source = std::make_unique<FileSource>(fd, stop_fd);
  struct stat facts {};
  if (fstat(fd, &facts) == 0 && S_ISDIR(facts.st_mode)) return Status::NotFound(strerror(EISDIR));
  return std::unique_ptr<ByteSource>(std::move(source));
}

}  // namespace penstock::corpus
