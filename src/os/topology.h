// How the processors that this process may use lie together: which are hyper-threads of one core,
// which cores share a last cache, and which memory is near. Read from /sys/devices/system, as Linux
// documents it (Documentation/admin-guide/cputopology.rst; ABI/testing/sysfs-devices-system-cpu).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace penstock {

struct Topology {
  // A core, and its hyper-threads that may be used: numbers of processors, rising.
  struct Core {
    std::vector<int> processors;
    size_t l3 = 0;    // index of the L3 cache it shares with others
    size_t node = 0;  // index of the memory that is near
  };

  // Cores of a node stand together, and within it those of an L3 cache; at least one.
  std::vector<Core> cores;
  size_t l3_domains = 1;
  size_t nodes = 1;

  size_t processors() const;
  // "8 cores", "64 cores with 2 threads each, 8 L3 caches, 2 memory nodes".
  std::string Text() const;
};

// The topology of the processors that this process's first thread may use.
Topology ReadTopology();
// The same of `processors`: those that may be used, rising, not empty. Files of the system are looked for under
// `root`, as "/" has them: for tests. Where the system tells nothing, each processor is a core, and
// all share one L3 cache and one memory.
Topology ReadTopologyIn(const std::string& root, const std::vector<int>& processors);

// Parses a list of processors in the form of /sys, "0-3,8,10-11". Empty if it is not in that form.
std::vector<int> ParseProcessorList(const std::string& text);

// The processors that this process's first thread may use, rising; at least one.
std::vector<int> AllowedProcessors();

}  // namespace penstock
