#include "api/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "api/names.h"
#include "base/printable.h"
#include "base/regular_file.h"

namespace penstock::api {
namespace {

constexpr size_t kKeyBytesMax = 255;  // NAME_MAX, with the slash

// Its names lie in one folder: no part of a path may be in them.
Status CheckKey(std::string_view key) {
  std::string_view name = key;
  if (name.starts_with('/')) name.remove_prefix(1);
  const bool plain = !name.empty() && name != "." && name != ".." && key.size() <= kKeyBytesMax &&
                     name.find_first_of(std::string_view("/\0", 2)) == std::string_view::npos;
  if (plain) return Status::Ok();
  return Status::InvalidArgument(
      fmt::format("the key of shared memory must be a name such as \"/input\", without further "
                  "slashes, of at most {} bytes; it is \"{}\"",
                  kKeyBytesMax, Shown(key)),
      "key");
}

Status NotFound(std::string_view name) {
  return Status::NotFound(fmt::format("no shared memory region '{}' is registered", Shown(name)),
                          "shared_memory_region");
}

Expected<FileDescriptor> Open(const SharedMemoryRegion& region) {
  FileDescriptor file(::shm_open(region.key.c_str(), O_RDWR, 0));
  if (file.get() < 0) {
    return Status::InvalidArgument(fmt::format("cannot open the shared memory \"{}\": {}",
                                               Shown(region.key), std::strerror(errno)),
                                   "key");
  }
  struct stat info {};
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return Status::InvalidArgument(fmt::format("\"{}\" is not shared memory", Shown(region.key)),
                                   "key");
  }
  const auto size = static_cast<uint64_t>(info.st_size);
  if (region.offset > size || region.bytes > size - region.offset) {
    return Status::InvalidArgument(
        fmt::format("the region '{}' of {} bytes at {} does not fit the shared memory \"{}\" of {} "
                    "bytes",
                    Shown(region.name), region.bytes, region.offset, Shown(region.key), size),
        "byte_size");
  }
  return file;
}

}  // namespace

struct SharedMemorySlice::Opened {
  SharedMemoryRegion region;
  FileDescriptor file;
};

Status SharedMemorySlice::CutShort() const {
  return Status::InvalidArgument(
      fmt::format("the shared memory region '{}' is shorter than when it was registered",
                  Shown(opened_->region.name)),
      "shared_memory_region");
}

Status SharedMemorySlice::SystemError(const char* action, int error) const {
  return {StatusCode::kUnavailable,
          fmt::format("cannot {} the shared memory region '{}': {}", action,
                      Shown(opened_->region.name), std::strerror(error))};
}

Status SharedMemorySlice::Read(std::span<std::byte> into) const {
  PENSTOCK_CHECK(into.size() <= bytes_);
  size_t done = 0;
  while (done < into.size()) {
    const ssize_t got = ::pread(opened_->file.get(), into.data() + done, into.size() - done,
                                static_cast<off_t>(offset_ + done));
    if (got > 0) {
      done += static_cast<size_t>(got);
    } else if (got == 0) {
      return CutShort();
    } else if (errno != EINTR) {
      return SystemError("read", errno);
    }
  }
  return Status::Ok();
}

Status SharedMemorySlice::Write(std::span<const std::byte> from) const {
  if (from.size() > bytes_) {
    return Status::InvalidArgument(
        fmt::format("the output has {} bytes, its part of the shared memory region '{}' {}",
                    from.size(), Shown(opened_->region.name), bytes_),
        "shared_memory_byte_size");
  }
  // A write behind the end would extend the file without an error.
  struct stat info {};
  if (::fstat(opened_->file.get(), &info) != 0) return SystemError("write", errno);
  if (static_cast<uint64_t>(info.st_size) < offset_ + from.size()) return CutShort();
  size_t done = 0;
  while (done < from.size()) {
    const ssize_t put = ::pwrite(opened_->file.get(), from.data() + done, from.size() - done,
                                 static_cast<off_t>(offset_ + done));
    if (put > 0) {
      done += static_cast<size_t>(put);
    } else if (put == 0 || errno != EINTR) {
      return SystemError("write", put == 0 ? ENOSPC : errno);
    }
  }
  return Status::Ok();
}

Status SharedMemory::Register(const SharedMemoryRegion& region) {
  if (bytes_max_ == 0) {
    return Status::Unsupported(
        "this server takes no shared memory; --shared-memory-bytes allows it");
  }
  if (region.name.empty() || region.name.size() > kNameBytesMax) {
    return Status::InvalidArgument(
        fmt::format("a shared memory region needs a name of 1 to {} bytes", kNameBytesMax), "name");
  }
  PENSTOCK_RETURN_IF_ERROR(CheckKey(region.key));
  if (region.bytes == 0) {
    return Status::InvalidArgument("a shared memory region must have at least one byte",
                                   "byte_size");
  }
  PENSTOCK_ASSIGN_OR_RETURN(FileDescriptor file, Open(region));
  auto opened = std::make_shared<const SharedMemorySlice::Opened>(
      SharedMemorySlice::Opened{region, std::move(file)});

  const std::lock_guard lock(mutex_);
  if (regions_.contains(region.name)) {
    return Status::InvalidArgument(
        fmt::format("a shared memory region '{}' is registered already", Shown(region.name)),
        "name");
  }
  if (regions_.size() >= kRegionsMax || region.bytes > bytes_max_ - bytes_) {
    return {StatusCode::kResourceExhausted,
            fmt::format("{} shared memory regions of {} bytes are registered; at most {} of {} "
                        "bytes together may be (--shared-memory-bytes)",
                        regions_.size(), bytes_, kRegionsMax, bytes_max_),
            "byte_size"};
  }
  bytes_ += region.bytes;
  regions_.emplace(region.name, std::move(opened));
  return Status::Ok();
}

void SharedMemory::Unregister(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = regions_.find(name);
  if (found == regions_.end()) return;
  bytes_ -= found->second->region.bytes;
  regions_.erase(found);
}

void SharedMemory::UnregisterAll() {
  const std::lock_guard lock(mutex_);
  regions_.clear();
  bytes_ = 0;
}

std::vector<SharedMemoryRegion> SharedMemory::Regions() const {
  const std::lock_guard lock(mutex_);
  std::vector<SharedMemoryRegion> regions;
  for (const auto& [name, opened] : regions_) regions.push_back(opened->region);
  return regions;
}

Expected<SharedMemoryRegion> SharedMemory::Find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = regions_.find(name);
  if (found == regions_.end()) return NotFound(name);
  return found->second->region;
}

Expected<SharedMemorySlice> SharedMemory::Slice(std::string_view name, uint64_t offset,
                                                uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto found = regions_.find(name);
  if (found == regions_.end()) return NotFound(name);
  const SharedMemoryRegion& region = found->second->region;
  if (offset > region.bytes || bytes > region.bytes - offset) {
    return Status::InvalidArgument(
        fmt::format("{} bytes at {} are not inside the shared memory region '{}' of {} bytes",
                    bytes, offset, Shown(name), region.bytes),
        "shared_memory_byte_size");
  }
  return SharedMemorySlice(found->second, region.offset + offset, bytes);
}

}  // namespace penstock::api
