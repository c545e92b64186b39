#include "common/processors.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "common/control_group.h"

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
  cpu_set_t set;
  CPU_ZERO(&set);
  // The process's first thread is asked: others may be pinned.
  const bool told = sched_getaffinity(getpid(), sizeof(set), &set) == 0;
  const auto allowed = static_cast<size_t>(told ? std::max(1, CPU_COUNT(&set)) : 1);
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return ReadProcessorLimitsIn("", std::max(allowed, static_cast<size_t>(std::max(1L, online))),
                               allowed);
}

size_t UsableProcessors() { return ReadProcessorLimits().usable(); }

ThreadPlan PlanThreads(size_t wanted, bool may_pin, const ProcessorLimits& limits) {
  const size_t threads = wanted > 0 ? wanted : limits.usable();
  return {threads, may_pin && !limits.cut() && threads == limits.allowed, !limits.cut()};
}

}  // namespace penstock
