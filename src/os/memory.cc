#include "os/memory.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>

#include "os/control_group.h"

namespace penstock {
namespace {

// Blocks of this size or more are mappings of their own. They cost a fault for each page, 60 µs per
// MiB: less than filling them.
constexpr int kLargeBlockBytes = 1 << 20;
// Free memory at the end of the heap that is kept.
constexpr int kHeapEndBytes = 8 << 20;

// The names of a group's files of this version.
struct MemoryFiles {
  const char* limit;
  const char* taken;
  const char* files;  // the key of memory.stat
};
constexpr MemoryFiles kFilesOfVersion1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                          "total_inactive_file "};
constexpr MemoryFiles kFilesOfVersion2 = {"memory.max", "memory.current", "inactive_file "};

// nullopt: the file gives no number, or a negative one.
std::optional<uint64_t> NumberIn(const std::string& path, const char* key) {
  const std::optional<int64_t> number = NumberInFile(path, key);
  if (!number || *number < 0) return std::nullopt;
  return static_cast<uint64_t>(*number);
}

// Below, the walk over the heap costs more than its memory is worth.
constexpr uint64_t kTrimBytesMin = 1 << 20;

}  // namespace

namespace {

struct ResidentPages {
  unsigned long long all = 0, of_files = 0;
};

ResidentPages ReadResident() {
  // "size resident shared ...".
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return {};
  unsigned long long size = 0;
  ResidentPages pages;
  const bool read = std::fscanf(file, "%llu %llu %llu", &size, &pages.all, &pages.of_files) == 3;
  std::fclose(file);
  return read ? pages : ResidentPages();
}

uint64_t BytesOf(unsigned long long pages) {
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

uint64_t ResidentBytes() { return BytesOf(ReadResident().all); }

uint64_t PrivateResidentBytes() {
  const ResidentPages pages = ReadResident();
  return pages.all > pages.of_files ? BytesOf(pages.all - pages.of_files) : 0;
}

uint64_t MemoryLimitBytes() { return MemoryLimitBytesIn(""); }

uint64_t MemoryLimitBytesIn(const std::string& root) {
  uint64_t bytes = NumberIn(root + "/proc/meminfo", "MemTotal: ").value_or(0) * 1024;
  for (const ControlGroup& group : ControlGroupsOf(root, "memory")) {
    const MemoryFiles& names = group.version == 2 ? kFilesOfVersion2 : kFilesOfVersion1;
    const std::optional<uint64_t> limit = NumberIn(group.folder + "/" + names.limit, "");
    if (limit && *limit > 0) bytes = bytes == 0 ? *limit : std::min(bytes, *limit);
  }
  return bytes;
}

uint64_t AvailableBytes() { return AvailableBytesIn(""); }

uint64_t AvailableBytesIn(const std::string& root) {
  const std::optional<uint64_t> kilobytes = NumberIn(root + "/proc/meminfo", "MemAvailable: ");
  uint64_t bytes = kilobytes.value_or(0) * 1024;
  for (const ControlGroup& group : ControlGroupsOf(root, "memory")) {
    const MemoryFiles& names = group.version == 2 ? kFilesOfVersion2 : kFilesOfVersion1;
    const std::optional<uint64_t> limit = NumberIn(group.folder + "/" + names.limit, "");
    const std::optional<uint64_t> taken = NumberIn(group.folder + "/" + names.taken, "");
    if (!limit || !taken) continue;
    // Pages of files count as taken, but are given up first.
    const uint64_t files = NumberIn(group.folder + "/memory.stat", names.files).value_or(0);
    const uint64_t used = *taken > files ? *taken - files : 0;
    const uint64_t left = *limit > used ? *limit - used : 0;
    bytes = bytes == 0 ? left : std::min(bytes, left);
  }
  return bytes;
}

uint64_t FreeHeapBytes() {
#if defined(__GLIBC__)
  return mallinfo2().fordblks;
#else
  return 0;
#endif
}

void TrimHeap() {
#if defined(__GLIBC__)
  if (FreeHeapBytes() >= kTrimBytesMin) malloc_trim(0);
#endif
}

void ReturnLargeBlocks() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_THRESHOLD, kLargeBlockBytes);
  mallopt(M_TRIM_THRESHOLD, kHeapEndBytes);
#endif
}

}  // namespace penstock
