// WorkerPool: a few threads and one bounded queue, for work that comes in pieces (tokenization).
//
// The pool owns its threads and the tasks given to it; a task runs on one of the threads. A task
// that returns true wants to run again: it goes to the end of the queue, so a request with
// thousands of texts takes turns with the others instead of keeping a thread to itself.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "common/status.h"

namespace penstock {

class WorkerPool {
 public:
  // True: run me again after those that wait. Must not throw.
  using Task = std::function<bool()>;

  // `queue_max`: tasks that may wait. Those that come round again are not counted against it:
  // there are never more of them than tasks let in.
  WorkerPool(size_t threads, size_t queue_max);
  ~WorkerPool();  // Stop()
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // kResourceExhausted: the queue is full; kUnavailable: stopped. The task is not run then.
  Status Submit(Task task);
  // Runs all that was accepted to its end, then joins. Not from a task.
  void Stop();

  size_t threads() const { return threads_.size(); }

  // How much the pool has to do. Shared, so that whoever watches may outlive the pool.
  struct Load {
    std::atomic<int64_t> busy_ns{0};  // time of tasks that have run, over all threads
    std::atomic<int64_t> waiting_tasks{0};
    std::atomic<int64_t> running_tasks{0};
  };
  std::shared_ptr<const Load> load() const { return load_; }
  // Whether a thread has nothing to do: the caller's may then do something else for a while. A
  // hint.
  bool HasIdleThread() const {
    return load_->waiting_tasks.load(std::memory_order_relaxed) == 0 &&
           load_->running_tasks.load(std::memory_order_relaxed) <
               static_cast<int64_t>(threads_.size());
  }

 private:
  void Run();

  const size_t queue_max_;
  const std::shared_ptr<Load> load_ = std::make_shared<Load>();
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Task> queue_;  // guarded by mutex_
  size_t running_ = 0;      // guarded by mutex_
  bool stopping_ = false;   // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace penstock
