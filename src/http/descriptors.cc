#include "http/descriptors.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

namespace penstock::http {

int64_t RaiseOpenFilesMax() {
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kNone;
  rlimit raised = limit;
  raised.rlim_cur = raised.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > static_cast<rlim_t>(kNone)) return kNone;
  return static_cast<int64_t>(limit.rlim_cur);
}

int32_t ConnectionsThatFit(int64_t open_files_max, int32_t io_threads, int32_t wanted) {
  const int64_t reserved = kReservedDescriptors + kDescriptorsPerIoThread * io_threads;
  const int64_t fit = std::max(open_files_max - reserved, open_files_max / 2);
  return static_cast<int32_t>(std::clamp<int64_t>(fit, 1, std::max(wanted, 1)));
}

bool SpareDescriptor::Take() {
  if (fd_ < 0) fd_ = open("/dev/null", O_RDONLY | O_CLOEXEC);
  return fd_ >= 0;
}

void SpareDescriptor::Give() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

}  // namespace penstock::http
