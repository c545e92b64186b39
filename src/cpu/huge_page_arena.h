// Memory in huge pages, for weights and activations. Two reasons: the hardware prefetcher stops at
// the end of each page, and L2 is indexed by physical address, so that with small pages a working
// set that should fit evicts itself (that took a third of a GEMM's speed).
//
//   chunk (whole 2 MiB pages)   | block | block | block |   free   |
//
// Blocks are cut off the end of the newest chunk. A page goes back to the system when its last
// block is gone. So an unloaded model frees all its pages but those it shares with its neighbours,
// the first and the last of each chunk; a chunk without blocks is unmapped. Space inside a chunk is
// never used again. Any thread may call.
//
// Where the machine has several memory nodes, the pages of a chunk can lie in them in turns: a page
// lies near the processor that touches it first, so a thread near each node touches its pages. Else
// all threads would read from the memory of the thread that loaded the model. (MPOL_INTERLEAVE does
// the same, but few containers are allowed to ask for it.)
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace penstock::cpu {

class HugePageArena {
 public:
  static constexpr size_t kPageBytes = 2 << 20;
  static constexpr size_t kChunkBytes = 8 << 20;  // larger blocks get a chunk of their own size
  static constexpr size_t kAlignment = 64;

  // Keeps its pages. May outlive the arena.
  struct Block {
    std::shared_ptr<void> chunk;
    void* data = nullptr;
  };

  HugePageArena() = default;
  // `nodes`: the processors near each memory node, to lay pages in turns; fewer than two: pages lie
  // where they are first used.
  explicit HugePageArena(std::vector<std::vector<int>> nodes) : nodes_(std::move(nodes)) {}

  // Alloc touches the pages of new chunks, which takes a millisecond for some megabytes.
  bool spreads() const { return nodes_.size() > 1; }

  // Uninitialised. Running out of memory throws std::bad_alloc.
  Block Alloc(size_t bytes);

  // Unmaps the newest chunk too if it has no blocks left.
  void Trim();

 private:
  class Chunk;

  std::shared_ptr<void> NewPages(size_t bytes) const;

  const std::vector<std::vector<int>> nodes_ = {};
  std::mutex mutex_;
  std::shared_ptr<Chunk> chunk_;
};

}  // namespace penstock::cpu
