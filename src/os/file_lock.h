// FileLock: an flock. The hub's cache holds one while a blob is written or removed, as
// huggingface_hub does; a server one while it uses its folder of batches. Ends with the process
// that has it, however that ends.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/status.h"

namespace penstock {

class FileLock {
 public:
  // Waits until no other process has it. `go_on` is asked several times a second meanwhile; false
  // gives up (kCancelled). Makes the file and its folder.
  static Expected<FileLock> Take(const std::string& path, const std::function<bool()>& go_on);
  // nullopt: another process or thread has it.
  static Expected<std::optional<FileLock>> Try(const std::string& path);

  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace penstock
