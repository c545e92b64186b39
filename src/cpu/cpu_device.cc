#include "cpu/cpu_device.h"

#include <algorithm>

#include "threads/waiting_lock.h"

namespace penstock::cpu {
namespace {

ThreadPlan Bounded(ThreadPlan plan) {
  if (plan.threads > ThreadPool::kThreadsMax) {
    plan.places.clear();
    plan.l3.clear();
  }
  plan.threads = std::clamp<size_t>(plan.threads, 1, ThreadPool::kThreadsMax);
  return plan;
}

}  // namespace

CpuDevice::CpuDevice(const Kernels* table, const ThreadPlan& threads, bool exact)
    : kernels(table),
      plan(Bounded(threads)),
      exact_threads(exact),
      weight_arena(plan.nodes),
      pool(plan),
      ops(table, &pool, &weight_arena, &work_arena) {
  if (pool.threads() == 1) return;
  for (size_t worker = 0; worker < pool.threads(); ++worker) {
    alone_.push_back(std::make_unique<Alone>(kernels));
  }
}

std::string CpuDevice::name() const {
  return std::string("cpu (") + kernels->name + ", " + std::to_string(pool.threads()) +
         (pool.threads() == 1 ? " thread)" : " threads)");
}

void CpuDevice::ReserveLinear(const PanelLinear& weight) {
  const WaitingLock lock(&mutex);
  for (const std::unique_ptr<Alone>& worker : alone_) worker->ops.Reserve(weight);
  ops.Reserve(weight);
}

void CpuDevice::ReserveAttention(size_t length, size_t head_size) {
  for (const std::unique_ptr<Alone>& worker : alone_) {
    worker->ops.ReserveAttention(length, head_size);
  }
  ops.ReserveAttention(length, head_size);
}

uint64_t CpuDevice::ScratchBytes() const {
  uint64_t bytes = ops.scratch_bytes();
  for (const std::unique_ptr<Alone>& worker : alone_) bytes += worker->ops.scratch_bytes();
  return bytes;
}

uint64_t CpuDevice::ReleaseScratch() {
  uint64_t bytes = 0;
  if (--scratch_holders_ == 0) {
    bytes = ops.ReleaseScratch();
    for (const std::unique_ptr<Alone>& worker : alone_) bytes += worker->ops.ReleaseScratch();
  }
  for (const std::unique_ptr<Alone>& worker : alone_) worker->work_arena.Trim();
  work_arena.Trim();
  return bytes;
}

}  // namespace penstock::cpu
