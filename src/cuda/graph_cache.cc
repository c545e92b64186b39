#include "cuda/graph_cache.h"

#include <algorithm>
#include <utility>

namespace penstock::cuda {

const GraphCache::Graph* GraphCache::Find(const Key& key, uint64_t generation) {
  ++gets_;
  if (std::exchange(generation_, generation) != generation) Clear();
  const auto found = graphs_.find(key);
  if (found == graphs_.end()) return nullptr;
  found->second.used = gets_;
  return &found->second;
}

Expected<const GraphCache::Graph*> GraphCache::Capture(const Key& key, const Lowered& lowered) {
  if (graphs_.size() >= std::max<size_t>(1, options_.graphs_max)) {
    const auto oldest = std::min_element(
        graphs_.begin(), graphs_.end(),
        [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    Free(oldest->second);
    graphs_.erase(oldest);
  }
  PENSTOCK_RETURN_IF_ERROR(shared_->device->BeginCapture());
  Status status;
  for (const KernelLaunch& launch : lowered.launches) {
    status = shared_->device->Launch(launch);
    if (!status.ok()) break;
  }
  auto captured = shared_->device->EndCapture();
  PENSTOCK_RETURN_IF_ERROR(captured.status());
  if (!status.ok()) {
    shared_->device->FreeGraph(*captured);
    return status;
  }
  const Graph graph = {*captured, lowered.result, gets_};
  const auto place = graphs_.emplace(key, graph).first;
  shared_->counters->captures.fetch_add(1, std::memory_order_relaxed);
  shared_->counters->graphs.fetch_add(1, std::memory_order_relaxed);
  return &place->second;
}

Status GraphCache::Put(const Kernels& kernels) {
  if (kernels.graph != nullptr) return shared_->device->Replay(kernels.graph->id);
  for (const KernelLaunch& launch : kernels.lowered.launches) {
    PENSTOCK_RETURN_IF_ERROR(shared_->device->Launch(launch));
  }
  return Status::Ok();
}

void GraphCache::Free(const Graph& graph) {
  shared_->device->FreeGraph(graph.id);
  shared_->counters->graphs.fetch_sub(1, std::memory_order_relaxed);
}

void GraphCache::Clear() {
  for (const auto& [key, graph] : graphs_) Free(graph);
  graphs_.clear();
}

}  // namespace penstock::cuda
