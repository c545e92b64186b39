// Loops that only read memory: the rate that other kernels are compared with. Which one is fastest
// differs from processor to processor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace penstock::cpu {

struct ReadLoop {
  std::string name;  // "512 bits, 8 KB ahead"
  // Reads `bytes`, a multiple of 4 KiB, and returns a sum of them.
  uint64_t (*read)(const uint8_t* from, size_t bytes);
};

// Those that this processor can run.
std::vector<ReadLoop> ReadLoops();

}  // namespace penstock::cpu
