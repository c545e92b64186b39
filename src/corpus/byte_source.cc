#include "corpus/byte_source.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

namespace penstock::corpus {
namespace {

class FileSource : public ByteSource {
 public:
  // `size`: of what is read, from where the file stands.
  FileSource(int fd, int stop_fd, int64_t size = std::numeric_limits<int64_t>::max())
      : fd_(fd), stop_fd_(stop_fd), left_(size) {}
  ~FileSource() override {
    if (fd_ != STDIN_FILENO) close(fd_);
  }

  Expected<size_t> Read(char* data, size_t size) override {
    size = static_cast<size_t>(std::min(static_cast<int64_t>(size), left_));
    if (size == 0) return size_t{0};
    while (true) {
      if (stop_fd_ >= 0) PENSTOCK_RETURN_IF_ERROR(WaitForBytes());
      const ssize_t n = read(fd_, data, size);
      if (n >= 0) {
        disk_bytes_ += n;
        left_ -= n;
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
  int64_t left_;
  int64_t disk_bytes_ = 0;
};

}  // namespace

Expected<std::unique_ptr<ByteSource>> OpenFile(const std::string& name, int stop_fd) {
  if (name == "-") {
    return std::unique_ptr<ByteSource>(std::make_unique<FileSource>(STDIN_FILENO, stop_fd));
  }
  return OpenSlice(name, 0, std::nullopt, stop_fd);
}

Expected<std::unique_ptr<ByteSource>> OpenSlice(const std::string& name, int64_t begin,
                                                std::optional<int64_t> end, int stop_fd) {
  const int fd = open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Status::NotFound(strerror(errno));
  const int64_t size = end ? *end - begin : std::numeric_limits<int64_t>::max();
  auto source = std::make_unique<FileSource>(fd, stop_fd, size);
  if (begin > 0 && lseek(fd, begin, SEEK_SET) < 0) {
    return Status(StatusCode::kUnavailable, strerror(errno));
  }
  struct stat facts {};
  if (fstat(fd, &facts) == 0 && S_ISDIR(facts.st_mode)) return Status::NotFound(strerror(EISDIR));
  return std::unique_ptr<ByteSource>(std::move(source));
}

}  // namespace penstock::corpus
