// File descriptors: the limit of this process, the connections that fit in it, and a spare one for
// when the limit is reached.
#pragma once

#include <cstdint>

namespace penstock::http {

// Descriptors kept for the rest of the process (loading models, Redis, the hub) and for each io
// thread's event loop.
inline constexpr int64_t kReservedDescriptors = 128;
inline constexpr int64_t kDescriptorsPerIoThread = 3;

// Raises the soft limit of this process to the hard one. Returns the new limit; INT64_MAX: none.
int64_t RaiseOpenFilesMax();

// How many of `wanted` connections fit: the limit less the reserved descriptors, but at least half
// the limit; at least 1.
int32_t ConnectionsThatFit(int64_t open_files_max, int32_t io_threads, int32_t wanted);

// A spare descriptor, given up to accept and turn away a client when no other is left: unaccepted,
// the client would wait and the listening socket would stay readable. One thread.
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

}  // namespace penstock::http
