#include "base/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

namespace penstock {
namespace {

constexpr size_t kBlockBytes = 1 << 20;

const char* KindOf(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "something else";
}

Status CheckKind(const std::string& path, const struct stat& info) {
  if (S_ISREG(info.st_mode)) return Status::Ok();
  return Status::InvalidArgument(path + " is " + KindOf(info.st_mode) + ", not a regular file");
}

Status CannotOpen(const std::string& path, int error) {
  const std::string message = "cannot open " + path + ": " + std::strerror(error);
  return error == ENOENT ? Status::NotFound(message) : Status::InvalidArgument(message);
}

Status CannotRead(const std::string& path, int error) {
  return {StatusCode::kUnavailable, "cannot read " + path + ": " + std::strerror(error)};
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) ::close(fd_);
}

Expected<FileDescriptor> OpenRegularFile(const std::string& path) {
  struct stat info {};
  // Checked before it is opened, as opening a device may have effects.
  if (::stat(path.c_str(), &info) != 0) return CannotOpen(path, errno);
  PENSTOCK_RETURN_IF_ERROR(CheckKind(path, info));
  // Opened without waiting, and checked again: it may be another file by now.
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.get() < 0) return CannotOpen(path, errno);
  if (::fstat(file.get(), &info) != 0) return CannotOpen(path, errno);
  PENSTOCK_RETURN_IF_ERROR(CheckKind(path, info));
  return file;
}

Expected<std::string> ReadRegularFile(const std::string& path, size_t bytes_max) {
  PENSTOCK_ASSIGN_OR_RETURN(const FileDescriptor file, OpenRegularFile(path));
  struct stat info {};
  std::string text;
  // One byte more than it has, so that its end is seen without another block.
  size_t block = kBlockBytes;
  if (::fstat(file.get(), &info) == 0) {
    block = std::min(static_cast<size_t>(info.st_size), bytes_max) + 1;
  }
  for (size_t size = 0;;) {
    text.resize(size + block);
    const ssize_t got = ::read(file.get(), text.data() + size, block);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return CannotRead(path, errno);
    size += static_cast<size_t>(got);
    if (size > bytes_max) {
      return Status::InvalidArgument(path + " is larger than " + std::to_string(bytes_max) +
                                     " bytes, the most that is read");
    }
    if (got == 0) {
      text.resize(size);
      return text;
    }
    block = std::min(kBlockBytes, bytes_max - size + 1);
  }
}

Status ReadInBlocks(const std::string& path, const TakeBlock& take) {
  PENSTOCK_ASSIGN_OR_RETURN(const FileDescriptor file, OpenRegularFile(path));
  const auto block = std::make_unique_for_overwrite<char[]>(kBlockBytes);
  while (true) {
    const ssize_t got = ::read(file.get(), block.get(), kBlockBytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return CannotRead(path, errno);
    if (got == 0) return Status::Ok();
    PENSTOCK_RETURN_IF_ERROR(take({block.get(), static_cast<size_t>(got)}));
  }
}

bool PathExists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

}  // namespace penstock
