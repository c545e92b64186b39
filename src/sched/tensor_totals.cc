#include "sched/tensor_totals.h"

namespace penstock::sched {
namespace {

void Add(Clock::duration took, TensorStatistics::Times* times) {
  ++times->count;
  times->ns += static_cast<uint64_t>(std::chrono::nanoseconds(took).count());
}

}  // namespace

TensorTotals::TensorTotals() {
  static std::atomic<uint64_t> last{0};
  runs_.scheduler = last.fetch_add(1, std::memory_order_relaxed) + 1;
}

void TensorTotals::Ran(uint32_t rows, Clock::duration input, Clock::duration infer) {
  const std::lock_guard lock(mutex_);
  runs_.rows += rows;
  ++runs_.runs;
  runs_.last_run_unix_ms = std::chrono::duration_cast<std::chrono::milliseconds>(
                               std::chrono::system_clock::now().time_since_epoch())
                               .count();
  TensorStatistics::Batch& batch = runs_.batches[rows];
  for (const auto& [took, all, one] :
       {std::tuple(input, &runs_.input, &batch.input), {infer, &runs_.infer, &batch.infer}}) {
    Add(took, all);
    Add(took, one);
  }
  ++runs_.output.count;
  ++batch.output.count;
}

void TensorTotals::HandedOut(uint32_t rows, Clock::duration output) {
  const auto ns = static_cast<uint64_t>(std::chrono::nanoseconds(output).count());
  const std::lock_guard lock(mutex_);
  runs_.output.ns += ns;
  runs_.batches[rows].output.ns += ns;
}

TensorStatistics TensorTotals::Read() const {
  TensorStatistics all;
  {
    const std::lock_guard lock(mutex_);
    all = runs_;
  }
  all.success = success_.Read();
  all.fail = fail_.Read();
  all.queue = queue_.Read();
  return all;
}

}  // namespace penstock::sched
