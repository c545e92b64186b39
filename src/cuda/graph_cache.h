// GraphCache: the kernels of a run by bucket. They are captured into a graph when their bucket is
// first met, and replayed from then on.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "cuda/lowering.h"
#include "cuda/weights.h"

namespace penstock::cuda {

struct RunOptions {
  bool graphs = true;      // else kernels are launched one by one; results are the same to the bit
  size_t graphs_max = 64;  // of each run; the one that was not used for longest goes
};

// Device calls: all under the mutex of the device.
class GraphCache {
 public:
  using Key = std::array<int32_t, 4>;  // a run's name of a bucket
  struct Graph {
    GraphId id{};
    const float* result = nullptr;
    uint64_t used = 0;  // the call of Get that used it last
  };
  // Launches, or what they were captured into.
  struct Kernels {
    Lowered lowered;
    const Graph* graph = nullptr;
    const float* result() const { return graph != nullptr ? graph->result : lowered.result; }
  };

  GraphCache(SharedDevice* shared, const RunOptions& options)
      : shared_(shared), options_(options) {}

  // Those of a bucket; lower() makes them, where they are not there. Graphs of another `generation`,
  // whose memory is gone, are freed.
  template <typename Lower>
  Expected<Kernels> Get(const Key& key, uint64_t generation, Lower&& lower) {
    if (!options_.graphs) return Kernels{lower(), nullptr};
    const Graph* graph = Find(key, generation);
    if (graph == nullptr) {
      PENSTOCK_ASSIGN_OR_RETURN(graph, Capture(key, lower()));
    }
    return Kernels{{}, graph};
  }
  // Puts them into the stream.
  Status Put(const Kernels& kernels);
  void Clear();

 private:
  const Graph* Find(const Key& key, uint64_t generation);
  Expected<const Graph*> Capture(const Key& key, const Lowered& lowered);
  void Free(const Graph& graph);

  SharedDevice* const shared_;
  const RunOptions options_;
  std::map<Key, Graph> graphs_;
  uint64_t gets_ = 0;
  uint64_t generation_ = 0;  // of the graphs
};

}  // namespace penstock::cuda
