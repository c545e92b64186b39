#include "os/processors.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "os/control_group.h"

namespace penstock {
namespace {

// The quota of a group in processors; nullopt: it has none.
std::optional<double> QuotaOf(const ControlGroup& group) {
  std::optional<int64_t> time, period;
  if (group.version == 2) {  // "200000 100000", or "max 100000"
    const std::string file = group.folder + "/cpu.max";
    time = NumberInFile(file, "");
    if (time) period = NumberInFile(file, std::to_string(*time) + " ");
  } else {  // without a quota it is -1
    time = NumberInFile(group.folder + "/cpu.cfs_quota_us", "");
    period = NumberInFile(group.folder + "/cpu.cfs_period_us", "");
  }
  if (!time || !period || *time <= 0 || *period <= 0) return std::nullopt;
  return static_cast<double>(*time) / static_cast<double>(*period);
}

}  // namespace

size_t ProcessorLimits::usable() const {
  return cut() ? std::max<size_t>(1, static_cast<size_t>(quota)) : std::max<size_t>(1, allowed);
}

std::string ProcessorLimits::Text() const {
  const char* const unit = online == 1 ? "processor" : "processors";
  if (cut()) return fmt::format("{} of {} {} ({})", usable(), online, unit, quota_file);
  if (allowed < online) return fmt::format("{} of {} {} (affinity)", allowed, online, unit);
  return fmt::format("{} {}", allowed, unit);
}

ProcessorLimits ReadProcessorLimitsIn(const std::string& root, size_t online, size_t allowed) {
  ProcessorLimits limits{online, allowed, 0, nullptr};
  for (const ControlGroup& group : ControlGroupsOf(root, "cpu")) {
    const auto quota = QuotaOf(group);
    if (!quota || (limits.quota > 0 && limits.quota <= *quota)) continue;
    limits.quota = *quota;
    limits.quota_file = group.version == 2 ? "cpu.max" : "cpu.cfs_quota_us";
  }
  return limits;
}

ProcessorLimits ReadProcessorLimits() {
  // The process's first thread is asked: others may be pinned.
  const size_t allowed = AllowedProcessors().size();
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return ReadProcessorLimitsIn("", std::max(allowed, static_cast<size_t>(std::max(1L, online))),
                               allowed);
}

size_t UsableProcessors() { return ReadProcessorLimits().usable(); }

ThreadPlan PlanThreads(size_t wanted, bool may_pin, const ProcessorLimits& limits,
                       const Topology& topology) {
  const size_t cores = topology.cores.size();
  const size_t useful = limits.cut() ? limits.usable() : std::min(limits.usable(), cores);
  ThreadPlan plan;
  plan.threads = wanted > 0 ? std::min(wanted, topology.processors()) : useful;
  plan.spin = !limits.cut();
  plan.at_once = topology.processors();
  if (topology.nodes > 1) {
    plan.nodes.resize(topology.nodes);
    for (const Topology::Core& core : topology.cores) {
      std::vector<int>& near = plan.nodes[core.node];
      near.insert(near.end(), core.processors.begin(), core.processors.end());
    }
  }
  if (!may_pin || limits.cut() || plan.threads < 2) return plan;
  if (plan.threads == cores) {
    for (const Topology::Core& core : topology.cores) {
      plan.places.push_back(core.processors);
      plan.l3.push_back(core.l3);
    }
  } else if (plan.threads == topology.processors()) {
    // The first thread of every core before the second of any: fewer threads than there are then have
    // a core each.
    for (size_t thread = 0; plan.places.size() < plan.threads; ++thread) {
      for (const Topology::Core& core : topology.cores) {
        if (thread >= core.processors.size()) continue;
        plan.places.push_back({core.processors[thread]});
        plan.l3.push_back(core.l3);
      }
    }
  }
  return plan;
}

ThreadPlan PlanThreads(size_t wanted, bool may_pin) {
  return PlanThreads(wanted, may_pin, ReadProcessorLimits(), ReadTopology());
}

}  // namespace penstock
