// SharedMemory: regions of POSIX shared memory (shm_open) of clients on the same machine, through
// which tensors come and go: Triton's "system shared memory" extension.
//
// A region is never mapped here. A mapping ends the process with SIGBUS where a client cuts the
// file short, and shows the server bytes that the client changes between a check and a use. Reading
// and writing by the descriptor costs one copy, gives an error instead, and what was read stays as
// it was checked.
//
// All is off unless the server allows some bytes: whoever may register may read and write all
// shared memory of the user that the server runs as. Any thread may call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace penstock::api {

struct SharedMemoryRegion {
  std::string name;     // the client's
  std::string key;      // of shm_open: "/x"
  uint64_t offset = 0;  // where the region begins in the shared memory
  uint64_t bytes = 0;
};

// Part of a region. While it lives, so does the memory, unregistered or not.
class SharedMemorySlice {
 public:
  SharedMemorySlice() = default;
  uint64_t bytes() const { return bytes_; }

  // The first into.size() <= bytes() bytes.
  // kInvalidArgument: the shared memory has been cut short since it was registered.
  Status Read(std::span<std::byte> into) const;
  // Writes at the beginning; from.size() may be over bytes(): kInvalidArgument, nothing is written.
  // Else errors as Read; kUnavailable: the system has no memory for it.
  Status Write(std::span<const std::byte> from) const;

 private:
  friend class SharedMemory;
  struct Opened;
  SharedMemorySlice(std::shared_ptr<const Opened> opened, uint64_t offset, uint64_t bytes)
      : opened_(std::move(opened)), offset_(offset), bytes_(bytes) {}
  Status CutShort() const;
  Status SystemError(const char* action, int error) const;

  std::shared_ptr<const Opened> opened_;
  uint64_t offset_ = 0;  // in the shared memory
  uint64_t bytes_ = 0;
};

class SharedMemory {
 public:
  static constexpr size_t kRegionsMax = 64;  // each holds a descriptor

  // `bytes_max`: of all regions together. 0: all is refused with kUnsupported.
  explicit SharedMemory(uint64_t bytes_max) : bytes_max_(bytes_max) {}

  // kInvalidArgument: the name is taken, empty or long; the key is not "NAME" or "/NAME", names no
  // shared memory, or one shorter than offset + bytes; `bytes` is 0.
  // kResourceExhausted: too many regions or bytes.
  Status Register(const SharedMemoryRegion& region);
  // Does nothing if no region has that name, as in Triton.
  void Unregister(const std::string& name);
  void UnregisterAll();

  // By name.
  std::vector<SharedMemoryRegion> Regions() const;
  // kNotFound
  Expected<SharedMemoryRegion> Find(const std::string& name) const;
  // kNotFound; kInvalidArgument: it is not all inside the region.
  Expected<SharedMemorySlice> Slice(std::string_view name, uint64_t offset, uint64_t bytes) const;

 private:
  const uint64_t bytes_max_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  std::map<std::string, std::shared_ptr<const SharedMemorySlice::Opened>, std::less<>> regions_;
  uint64_t bytes_ = 0;
};

}  // namespace penstock::api
