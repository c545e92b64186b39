#include "common/memory.h"

#include <malloc.h>
#include <unistd.h>

#include <cstdio>

namespace penstock {
namespace {

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

}  // namespace penstock
