#include "common/worker_pool.h"

#include <algorithm>
#include <chrono>
#include <string>

namespace penstock {

WorkerPool::WorkerPool(size_t threads, size_t queue_max) : queue_max_(queue_max) {
  threads = std::max<size_t>(threads, 1);
  threads_.reserve(threads);
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

WorkerPool::~WorkerPool() { Stop(); }

Status WorkerPool::Submit(Task task) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return {StatusCode::kUnavailable, "the worker pool is stopping"};
    if (queue_.size() >= queue_max_) {
      return Status(StatusCode::kResourceExhausted,
                    "the tokenization queue is full (" + std::to_string(queue_max_) + " waiting)")
          .WithRetryAfter(1);
    }
    queue_.push_back(std::move(task));
    load_->waiting_tasks.store(static_cast<int64_t>(queue_.size()), std::memory_order_relaxed);
  }
  wake_.notify_one();
  return Status::Ok();
}

void WorkerPool::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    // While a task runs it may come back, so the others do not leave before it is through.
    wake_.wait(lock, [this] { return !queue_.empty() || (stopping_ && running_ == 0); });
    if (queue_.empty()) return;
    Task task = std::move(queue_.front());
    queue_.pop_front();
    load_->waiting_tasks.store(static_cast<int64_t>(queue_.size()), std::memory_order_relaxed);
    load_->running_tasks.store(static_cast<int64_t>(++running_), std::memory_order_relaxed);
    lock.unlock();
    const auto start = std::chrono::steady_clock::now();
    const bool again = task();
    if (!again) task = nullptr;  // what it captured goes outside the lock
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
    load_->busy_ns.fetch_add(took.count(), std::memory_order_relaxed);
    lock.lock();
    load_->running_tasks.store(static_cast<int64_t>(--running_), std::memory_order_relaxed);
    if (again) queue_.push_back(std::move(task));
    load_->waiting_tasks.store(static_cast<int64_t>(queue_.size()), std::memory_order_relaxed);
    if (stopping_) wake_.notify_all();
  }
}

void WorkerPool::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (auto& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

}  // namespace penstock
