#include "os/thread_latency.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace penstock {
namespace {

// As <linux/sched/types.h>, which cannot be included beside <sched.h>.
struct SchedAttr {
  uint32_t size;
  uint32_t policy;
  uint64_t flags;
  int32_t nice;
  uint32_t priority;
  uint64_t runtime_ns;
  uint64_t deadline_ns;
  uint64_t period_ns;
};

constexpr uint64_t kSliceNs = 100'000;  // the least that Linux takes

}  // namespace

void PreferShortSlices() {
  SchedAttr attr{};
  attr.size = sizeof attr;
  attr.policy = SCHED_OTHER;
  attr.nice = getpriority(PRIO_PROCESS, static_cast<id_t>(gettid()));
  attr.runtime_ns = kSliceNs;
  // Refused where it is not known or not allowed; then all is as before.
  (void)syscall(SYS_sched_setattr, 0, &attr, 0);
}

}  // namespace penstock
