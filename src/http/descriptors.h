// File descriptors: how many this process may have open, how many connections fit in them, and one
// held back for the moment when there are none left.
#pragma once

#include <cstdint>

namespace penstock {

// Descriptors that connections leave to the rest of the process: models that load, Redis, the hub;
// and to each io thread, for its event loop.
inline constexpr int64_t kReservedDescriptors = 128;
inline constexpr int64_t kDescriptorsPerIoThread = 3;

// Raises the soft limit of this process to the hard one. The limit then, INT64_MAX for none.
int64_t RaiseOpenFilesMax();

// How many of `wanted` connections fit: all but the reserved ones of the limit, or half of a limit
// below twice that; at least 1.
int32_t ConnectionsThatFit(int64_t open_files_max, int32_t io_threads, int32_t wanted);

// One descriptor that is given up to accept, and turn away, a client that no other is left for:
// unaccepted, the client would wait, and the listening socket would stay readable. One thread.
class SpareDescriptor {
 public:
  SpareDescriptor() { Take(); }
  ~SpareDescriptor() { Give(); }
  SpareDescriptor(const SpareDescriptor&) = delete;
  SpareDescriptor& operator=(const SpareDescriptor&) = delete;

  // True if there is one now.
  bool Take();
  void Give();

 private:
  int fd_ = -1;
};

}  // namespace penstock
