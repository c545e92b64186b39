// Files of models and settings: regular files only. A FIFO, a device or a socket in their place is
// refused at once, without waiting.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace penstock {

// Owns a descriptor.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor();

  int get() const { return fd_; }

 private:
  int fd_ = -1;
};

// Opens for reading; links are followed. kNotFound: no such file. kInvalidArgument: it cannot be
// opened, or is not a regular file; the message names its kind.
Expected<FileDescriptor> OpenRegularFile(const std::string& path);

// Reads the whole file. Errors: those of OpenRegularFile; kInvalidArgument also: more than
// `bytes_max` bytes, of which no more are read; kUnavailable: reading failed.
Expected<std::string> ReadRegularFile(const std::string& path, size_t bytes_max);

// Gives `take` the whole file, a block after the other; its error ends the reading. Errors of
// OpenRegularFile; kUnavailable: reading failed.
using TakeBlock = std::function<Status(std::string_view bytes)>;
Status ReadInBlocks(const std::string& path, const TakeBlock& take);

// Whether there is anything of that name. Links are followed: a dangling one is not there.
bool PathExists(const std::string& path);

}  // namespace penstock
