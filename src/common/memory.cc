#include "common/memory.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>

namespace penstock {
namespace {

// Blocks of this size or more are mappings of their own. They cost a fault for each page, 60 µs per
// MiB: less than filling them.
constexpr int kLargeBlockBytes = 1 << 20;
// Free memory at the end of the heap that is kept.
constexpr int kHeapEndBytes = 8 << 20;

// Reads the number after `key` in the first line that begins with it. Returns nullopt if the file
// or the line is missing.
std::optional<uint64_t> NumberIn(const char* path, const char* key) {
  std::FILE* file = std::fopen(path, "re");
  if (file == nullptr) return std::nullopt;
  const std::string format = std::string(key) + "%llu";
  char line[256];
  std::optional<uint64_t> found;
  while (!found && std::fgets(line, sizeof(line), file) != nullptr) {
    unsigned long long number = 0;
    if (std::sscanf(line, format.c_str(), &number) == 1) found = number;
  }
  std::fclose(file);
  return found;
}

// Below, the walk over the heap costs more than its memory is worth.
constexpr uint64_t kTrimBytesMin = 1 << 20;

}  // namespace

uint64_t ResidentBytes() {
  // "size resident shared ...", in pages.
  std::FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  unsigned long long size = 0, resident = 0;
  const bool read = std::fscanf(file, "%llu %llu", &size, &resident) == 2;
  std::fclose(file);
  return read ? resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

uint64_t AvailableBytes() {
  const std::optional<uint64_t> kilobytes = NumberIn("/proc/meminfo", "MemAvailable: ");
  uint64_t bytes = kilobytes.value_or(0) * 1024;
  const std::optional<uint64_t> limit = NumberIn("/sys/fs/cgroup/memory.max", "");
  const std::optional<uint64_t> taken = NumberIn("/sys/fs/cgroup/memory.current", "");
  if (!limit || !taken) return bytes;
  // Pages of files count as taken, but are given up first.
  const uint64_t files = NumberIn("/sys/fs/cgroup/memory.stat", "inactive_file ").value_or(0);
  const uint64_t used = *taken > files ? *taken - files : 0;
  const uint64_t left = *limit > used ? *limit - used : 0;
  return bytes == 0 ? left : std::min(bytes, left);
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
