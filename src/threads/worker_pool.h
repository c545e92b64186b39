// WorkerPool: a few threads for work that comes in turns: tokenization, parsing and printing of
// large bodies.
//
// The pool owns its threads and the tasks given to it. A task that wants another turn goes to the
// end of its queue, so a request with thousands of texts takes turns with the others instead of
// keeping a thread to itself.
//
// Order of turns:
//   - interactive tasks go before bulk ones; while both wait, one turn in kTurnsPerBulk is bulk's;
//   - long turns (more than about 10 ms: parsing and printing of megabytes) run on threads of their
//     own, at a low priority of the system: neither short turns nor the model wait for them.
//
// An exception that leaves a task is logged and ends the task; the rest goes on. A task that wants
// another turn has it, whatever memory is left.
#pragma once

#include <array>
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

#include "base/status.h"
#include "threads/request_context.h"

namespace penstock {

class WorkerPool {
 public:
  // A task's answer after a turn: done, or another turn.
  enum class Turn { kDone, kAgain, kAgainLong };
  using Task = std::function<Turn()>;
  enum class Length { kShort, kLong };  // of the first turn

  static constexpr uint32_t kTurnsPerBulk = 8;

  // `queue_max`: tasks that may wait. Those that come round again are not counted against it:
  // there are never more of them than tasks let in.
  WorkerPool(size_t threads, size_t queue_max);
  ~WorkerPool();  // Stop()
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // kResourceExhausted: the queue is full; kUnavailable: stopped. The task is not run then.
  Status Submit(Task task, Priority priority = Priority::kInteractive,
                Length length = Length::kShort);
  // As Submit, even if the queue is full: for another step of a request that was let in before.
  // False: stopped.
  bool SubmitAdmitted(Task task, Priority priority, Length length);
  // Runs all that was accepted to its end, then joins. Not from a task.
  void Stop();

  size_t threads() const { return short_threads_; }  // for short turns
  // Whether no task waits or runs.
  bool IsIdle() const;

  // The pool's load. Shared, so that an observer may outlive the pool.
  struct Load {
    std::atomic<int64_t> busy_ns{0};  // time of tasks that have run, over all threads
    std::atomic<int64_t> waiting_tasks{0};
    std::atomic<int64_t> running_tasks{0};
  };
  std::shared_ptr<const Load> load() const { return load_; }
  // Whether a thread for short turns is idle, so that the caller's may do other work for a while. A
  // hint.
  bool HasIdleThread() const {
    return short_at_work_.load(std::memory_order_relaxed) < short_threads_;
  }

 private:
  struct Item {
    Task task;
    Priority priority = Priority::kInteractive;
    Length length = Length::kShort;
  };
  // Tasks for turns of one length.
  struct Queues {
    std::array<std::deque<Item>, kPriorities> of_class;
    uint32_t interactive_turns = 0;  // since bulk had one, while bulk waited
    std::condition_variable wake;
  };

  // An item that could not be queued for want of memory stays as it was.
  void Push(Item&& item);
  // Runs a task until it is done, or queued for its next turn. `lock` is held before and after.
  void RunTurns(Item* item, std::unique_lock<std::mutex>* lock);
  // The next task for a turn of this length; false: none. mutex_ held, as for Push.
  bool TakeNext(Length length, Item* item);
  void Run(Length length);

  const size_t queue_max_;
  const size_t short_threads_;
  const std::shared_ptr<Load> load_ = std::make_shared<Load>();
  std::atomic<size_t> short_at_work_{0};  // tasks that wait or run
  mutable std::mutex mutex_;
  // All guarded by mutex_.
  std::array<Queues, 2> queues_;  // by Length
  size_t waiting_ = 0;
  size_t running_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace penstock
