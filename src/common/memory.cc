#include "common/memory.h"

#include <malloc.h>
#include <unistd.h>

#include <cstdio>

namespace penstock {
namespace {

// Blocks of this size or more are mappings of their own. They cost a fault for each page, 60 µs per
// MiB: less than filling them.
constexpr int kLargeBlockBytes = 1 << 20;
// Free memory at the end of the heap that is kept.
constexpr int kHeapEndBytes = 8 << 20;

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
