#include "os/topology.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <optional>
#include <tuple>

namespace penstock {
namespace {

// The largest number of a list; systems have fewer, and a list that says more is not followed.
constexpr int kProcessorsMax = 1 << 14;
constexpr int kCacheIndicesMax = 8;
constexpr int kNodesMax = 256;

std::optional<std::string> FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return line;
}

// The smallest number of a list in a file: a name for all that stand in it.
std::optional<int> FirstOfList(const std::string& path) {
  const std::vector<int> list = ParseProcessorList(FirstLine(path).value_or(""));
  if (list.empty()) return std::nullopt;
  return list.front();
}

// The first processor that shares this one's L3 cache; nullopt: it has none, or the system is mute.
std::optional<int> L3Of(const std::string& processor) {
  for (int index = 0; index < kCacheIndicesMax; ++index) {
    const std::string cache = processor + "/cache/index" + std::to_string(index);
    if (FirstLine(cache + "/level") == "3") return FirstOfList(cache + "/shared_cpu_list");
  }
  return std::nullopt;
}

std::map<int, int> NodesOfProcessors(const std::string& system) {
  std::map<int, int> nodes;
  for (int node = 0; node < kNodesMax; ++node) {
    const std::string folder = system + "/node/node" + std::to_string(node);
    for (const int processor : ParseProcessorList(FirstLine(folder + "/cpulist").value_or(""))) {
      nodes[processor] = node;
    }
  }
  return nodes;
}

std::string Counted(size_t count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

}  // namespace

size_t Topology::processors() const {
  size_t count = 0;
  for (const Core& core : cores) count += core.processors.size();
  return count;
}

std::string Topology::Text() const {
  std::string text = Counted(cores.size(), "core", "cores");
  const size_t threads = cores.front().processors.size();
  const bool even = std::ranges::all_of(
      cores, [&](const Core& core) { return core.processors.size() == threads; });
  if (!even) text += fmt::format(" with {} threads", processors());
  if (even && threads > 1) text += fmt::format(" with {} threads each", threads);
  if (l3_domains > 1) text += fmt::format(", {} L3 caches", l3_domains);
  if (nodes > 1) text += fmt::format(", {} memory nodes", nodes);
  return text;
}

std::vector<int> ParseProcessorList(const std::string& text) {
  std::vector<int> list;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end && *at != '\n') {
    int first = 0;
    auto read = std::from_chars(at, end, first);
    int last = first;
    if (read.ec == std::errc() && read.ptr < end && *read.ptr == '-') {
      read = std::from_chars(read.ptr + 1, end, last);
    }
    if (read.ec != std::errc() || first < 0 || last < first || last >= kProcessorsMax) return {};
    for (int processor = first; processor <= last; ++processor) list.push_back(processor);
    at = read.ptr;
    if (at < end && *at == ',')
      ++at;
    else if (at < end && *at != '\n')
      return {};
  }
  return list;
}

std::vector<int> AllowedProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> processors;
  if (sched_getaffinity(getpid(), sizeof(set), &set) == 0) {
    for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
      if (CPU_ISSET(static_cast<size_t>(processor), &set)) processors.push_back(processor);
    }
  }
  if (processors.empty()) processors.push_back(0);
  return processors;
}

Topology ReadTopology() { return ReadTopologyIn("", AllowedProcessors()); }

Topology ReadTopologyIn(const std::string& root, const std::vector<int>& processors) {
  const std::string system = root + "/sys/devices/system";
  const std::map<int, int> nodes = NodesOfProcessors(system);
  // By node, L3 cache and core, each named by its first processor of the whole system.
  std::map<std::tuple<int, int, int>, std::vector<int>> cores;
  for (const int processor : processors) {
    const std::string folder = fmt::format("{}/cpu/cpu{}", system, processor);
    const auto node = nodes.find(processor);
    const int core = FirstOfList(folder + "/topology/thread_siblings_list").value_or(processor);
    const int l3 = L3Of(folder).value_or(-1);
    cores[{node == nodes.end() ? -1 : node->second, l3, core}].push_back(processor);
  }
  Topology topology;
  std::map<int, size_t> node_index;
  std::map<std::pair<int, int>, size_t> l3_index;
  for (auto& [place, list] : cores) {
    const auto& [node, l3, core] = place;
    Topology::Core made;
    made.node = node_index.try_emplace(node, node_index.size()).first->second;
    // Without an L3 cache, what is near one memory counts as together.
    made.l3 = l3_index.try_emplace({node, l3}, l3_index.size()).first->second;
    made.processors = std::move(list);
    topology.cores.push_back(std::move(made));
  }
  topology.l3_domains = l3_index.size();
  topology.nodes = node_index.size();
  return topology;
}

}  // namespace penstock
