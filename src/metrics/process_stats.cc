#include "metrics/process_stats.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>

#include "log/log_writer.h"
#include "os/memory.h"
#include "os/processors.h"

namespace penstock::metrics {

double ProcessorSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

int ProcessorsAllowed() {
  const ProcessorLimits limits = ReadProcessorLimits();
  if (!limits.cut()) return static_cast<int>(limits.allowed);
  return std::max(1, static_cast<int>(std::ceil(limits.quota)));
}

void AddProcessMetrics(Metrics* metrics) {
  using Kind = Metrics::Kind;
  metrics->AddFunction("process_resident_memory_bytes", "Memory of the process that is in RAM.",
                       Kind::kGauge, [] { return static_cast<double>(ResidentBytes()); });
  metrics->AddFunction("process_cpu_seconds_total", "Processor time, user and system.",
                       Kind::kCounter, ProcessorSeconds);
  metrics->AddFunction("process_open_fds", "Open file descriptors.", Kind::kGauge, [] {
    // Not std::filesystem: where it has no memory, it ends the process.
    DIR* const folder = opendir("/proc/self/fd");
    if (folder == nullptr) return 0.0;
    double count = 0;
    while (const dirent* entry = readdir(folder)) count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
  });
  metrics->AddFunction("penstock_log_dropped_total",
                       "Lines of the log that were lost because stderr did not take them.",
                       Kind::kCounter, [] { return static_cast<double>(LogDropped()); });
  metrics->AddFunction("process_start_time_seconds", "When the metrics began, in Unix time.",
                       Kind::kGauge, [start = std::time(nullptr)] { return double(start); });
}

}  // namespace penstock::metrics
