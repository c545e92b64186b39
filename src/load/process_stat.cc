#include "load/process_stat.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>

namespace penstock::load {

double ProcessCpuSeconds(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  // The name, in brackets, may hold spaces; utime and stime are fields 14 and 15, the name is 2.
  const size_t bracket = text.rfind(')');
  if (bracket == std::string::npos) return 0;
  std::istringstream fields(text.substr(bracket + 1));
  std::string skipped;
  for (int field = 3; field < 14; ++field) fields >> skipped;
  double user = 0;
  double system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double ThreadCpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double MachineBusySeconds() {
  std::ifstream file("/proc/stat");
  std::string skipped;
  // user nice system idle iowait irq softirq steal
  double times[8] = {};
  file >> skipped;
  for (double& time : times) file >> time;
  const double ticks = times[0] + times[1] + times[2] + times[5] + times[6] + times[7];
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double ProcessResidentBytes(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/statm", pid));
  double pages = 0;
  double resident = 0;
  if (!(file >> pages >> resident)) return 0;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

double ProcessPeakBytes(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("VmHWM:")) return 1024 * std::strtod(line.c_str() + 6, nullptr);
  }
  return 0;
}

bool ResetProcessPeak(pid_t pid) {
  std::ofstream file(fmt::format("/proc/{}/clear_refs", pid));
  return static_cast<bool>(file << "5" << std::flush);
}

}  // namespace penstock::load
