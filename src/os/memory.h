// The memory the process has, and giving free heap back to the system. Any thread may call.
#pragma once

#include <cstdint>
#include <string>

namespace penstock {

// Memory of the process in RAM; 0 if the system does not tell.
uint64_t ResidentBytes();

// Memory that this process may still take, by the system and by the limits of its control group and
// those above it (versions 1 and 2); file pages that the system would give up count. 0 if the
// system does not tell.
uint64_t AvailableBytes();
// The same with the files of the system under `root`, as "/" has them: for tests.
uint64_t AvailableBytesIn(const std::string& root);

// Memory of the process in RAM that the system cannot take back without swapping: files that are
// mapped, weights among them, are not in it. 0 if the system does not tell.
uint64_t PrivateResidentBytes();

// All memory that this process may have: the machine's, or less by the limits of its control group
// and those above it. 0 if the system does not tell.
uint64_t MemoryLimitBytes();
uint64_t MemoryLimitBytesIn(const std::string& root);

// Free blocks that the heap keeps for later.
uint64_t FreeHeapBytes();

// Gives free blocks back to the system. Takes milliseconds where there are many, and allocations
// of other threads wait meanwhile; does nothing where there is little to give.
void TrimHeap();

// Call at the start of a process that lives long: large blocks go back to the system as they are
// freed. (By default glibc learns from the first large block freed to keep blocks of its size.)
void ReturnLargeBlocks();

}  // namespace penstock
