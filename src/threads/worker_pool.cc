#include "threads/worker_pool.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "log/exception_status.h"

namespace penstock {

namespace {

// The niceness of threads for long turns: a tenth of the weight of the others.
constexpr int kLongTurnNice = 10;

void LowerPriority() {
  const auto thread = static_cast<id_t>(syscall(SYS_gettid));
  (void)setpriority(PRIO_PROCESS, thread, kLongTurnNice);
}

}  // namespace

WorkerPool::WorkerPool(size_t threads, size_t queue_max)
    : queue_max_(queue_max), short_threads_(std::max<size_t>(threads, 1)) {
  const size_t long_threads = std::max<size_t>(short_threads_ / 2, 1);
  threads_.reserve(short_threads_ + long_threads);
  try {
    for (size_t i = 0; i < short_threads_; ++i) {
      threads_.emplace_back([this] {
        pthread_setname_np(pthread_self(), "worker");
        Run(Length::kShort);
      });
    }
    for (size_t i = 0; i < long_threads; ++i) {
      threads_.emplace_back([this] {
        pthread_setname_np(pthread_self(), "worker-long");
        LowerPriority();
        Run(Length::kLong);
      });
    }
  } catch (...) {  // the system gives no more threads
    Stop();
    throw;
  }
}

WorkerPool::~WorkerPool() { Stop(); }

Status WorkerPool::Submit(Task task, Priority priority, Length length) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return {StatusCode::kUnavailable, "the worker pool is stopping"};
    if (waiting_ >= queue_max_) {
      return Status(StatusCode::kResourceExhausted,
                    "the tokenization queue is full (" + std::to_string(queue_max_) + " waiting)")
          .WithRetryAfter(1);
    }
    Push({std::move(task), priority, length});
  }
  return Status::Ok();
}

bool WorkerPool::SubmitAdmitted(Task task, Priority priority, Length length) {
  {
    const std::lock_guard lock(mutex_);
    // A task that runs now may still add tasks before the threads end.
    if (stopping_ && running_ == 0) return false;
    Push({std::move(task), priority, length});
  }
  return true;
}

bool WorkerPool::IsIdle() const {
  const std::lock_guard lock(mutex_);
  return waiting_ == 0 && running_ == 0;
}

void WorkerPool::Push(Item&& item) {
  const Length length = item.length;
  Queues& queues = queues_[static_cast<size_t>(length)];
  auto& queue = queues.of_class[static_cast<size_t>(item.priority)];
  queue.push_back(std::move(item));
  if (length == Length::kShort) short_at_work_.fetch_add(1, std::memory_order_relaxed);
  ++waiting_;
  load_->waiting_tasks.store(static_cast<int64_t>(waiting_), std::memory_order_relaxed);
  queues.wake.notify_one();
}

bool WorkerPool::TakeNext(Length length, Item* item) {
  Queues& queues = queues_[static_cast<size_t>(length)];
  auto& interactive = queues.of_class[static_cast<size_t>(Priority::kInteractive)];
  auto& bulk = queues.of_class[static_cast<size_t>(Priority::kBulk)];
  if (interactive.empty() && bulk.empty()) return false;
  const bool bulks_turn = queues.interactive_turns + 1 >= kTurnsPerBulk;
  const bool take_bulk = interactive.empty() || (bulks_turn && !bulk.empty());
  queues.interactive_turns = take_bulk || bulk.empty() ? 0 : queues.interactive_turns + 1;
  auto& from = take_bulk ? bulk : interactive;
  *item = std::move(from.front());
  from.pop_front();
  --waiting_;
  return true;
}

void WorkerPool::RunTurns(Item* item, std::unique_lock<std::mutex>* lock) {
  bool queued = false;
  // Without memory for a place in the queue the task has its next turn here at once.
  while (!queued) {
    lock->unlock();
    const auto start = std::chrono::steady_clock::now();
    Turn turn = Turn::kDone;
    RunGuarded("worker pool", [&] { turn = item->task(); });
    if (turn == Turn::kDone) item->task = nullptr;  // its captures are freed outside the lock
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
    load_->busy_ns.fetch_add(took.count(), std::memory_order_relaxed);
    lock->lock();
    if (turn == Turn::kDone) return;
    item->length = turn == Turn::kAgainLong ? Length::kLong : Length::kShort;
    queued = RunGuarded("worker pool", [&] { Push(std::move(*item)); });
  }
}

void WorkerPool::Run(Length length) {
  std::unique_lock lock(mutex_);
  while (true) {
    Item item;
    // While a task waits or runs it may come back, so no thread leaves before.
    queues_[static_cast<size_t>(length)].wake.wait(lock, [&] {
      return TakeNext(length, &item) || (stopping_ && running_ == 0 && waiting_ == 0);
    });
    if (item.task == nullptr) return;
    load_->waiting_tasks.store(static_cast<int64_t>(waiting_), std::memory_order_relaxed);
    load_->running_tasks.store(static_cast<int64_t>(++running_), std::memory_order_relaxed);
    RunTurns(&item, &lock);
    load_->running_tasks.store(static_cast<int64_t>(--running_), std::memory_order_relaxed);
    if (length == Length::kShort) short_at_work_.fetch_sub(1, std::memory_order_relaxed);
    if (stopping_) {
      for (Queues& queues : queues_) queues.wake.notify_all();
    }
  }
}

void WorkerPool::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  for (Queues& queues : queues_) queues.wake.notify_all();
  for (auto& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

}  // namespace penstock
