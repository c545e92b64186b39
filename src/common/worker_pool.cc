#include "common/worker_pool.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "common/exception_status.h"

namespace penstock {

WorkerPool::WorkerPool(size_t threads, size_t queue_max)
    : queue_max_(queue_max), long_max_(std::max<size_t>(threads, 2) - 1) {
  threads = std::max<size_t>(threads, 1);
  threads_.reserve(threads);
  try {
    for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
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
  wake_.notify_one();
  return Status::Ok();
}

bool WorkerPool::SubmitAdmitted(Task task, Priority priority, Length length) {
  {
    const std::lock_guard lock(mutex_);
    // Whoever runs a task now may add to what is finished before the threads go.
    if (stopping_ && running_ == 0) return false;
    Push({std::move(task), priority, length});
  }
  wake_.notify_one();
  return true;
}

void WorkerPool::Push(Item item) {
  Queues& queues = queues_[static_cast<size_t>(item.priority)];
  queues.of_length[static_cast<size_t>(item.length)].push_back(std::move(item));
  ++waiting_;
  load_->waiting_tasks.store(static_cast<int64_t>(waiting_), std::memory_order_relaxed);
}

bool WorkerPool::TakeOf(Priority priority, Item* item) {
  Queues& queues = queues_[static_cast<size_t>(priority)];
  for (const Length length :
       {queues.next, queues.next == Length::kShort ? Length::kLong : Length::kShort}) {
    auto& queue = queues.of_length[static_cast<size_t>(length)];
    if (queue.empty() || (length == Length::kLong && running_long_ >= long_max_)) continue;
    *item = std::move(queue.front());
    queue.pop_front();
    queues.next = length == Length::kShort ? Length::kLong : Length::kShort;
    --waiting_;
    return true;
  }
  return false;
}

bool WorkerPool::TakeNext(Item* item) {
  const Queues& bulk = queues_[static_cast<size_t>(Priority::kBulk)];
  const bool bulk_waits = !bulk.of_length[0].empty() || !bulk.of_length[1].empty();
  if (bulk_waits && interactive_turns_ + 1 >= kTurnsPerBulk && TakeOf(Priority::kBulk, item)) {
    interactive_turns_ = 0;
    return true;
  }
  if (TakeOf(Priority::kInteractive, item)) {
    interactive_turns_ = bulk_waits ? interactive_turns_ + 1 : 0;
    return true;
  }
  return TakeOf(Priority::kBulk, item);
}

void WorkerPool::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    Item item;
    // While a task runs it may come back, so the others do not leave before it is through.
    wake_.wait(lock, [&] { return TakeNext(&item) || (stopping_ && running_ == 0); });
    if (item.task == nullptr) return;
    const bool is_long = item.length == Length::kLong;
    running_long_ += is_long;
    load_->waiting_tasks.store(static_cast<int64_t>(waiting_), std::memory_order_relaxed);
    load_->running_tasks.store(static_cast<int64_t>(++running_), std::memory_order_relaxed);
    lock.unlock();
    const auto start = std::chrono::steady_clock::now();
    Turn turn = Turn::kDone;
    RunGuarded("worker pool", [&] { turn = item.task(); });
    if (turn == Turn::kDone) item.task = nullptr;  // what it captured goes outside the lock
    const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
    load_->busy_ns.fetch_add(took.count(), std::memory_order_relaxed);
    lock.lock();
    load_->running_tasks.store(static_cast<int64_t>(--running_), std::memory_order_relaxed);
    running_long_ -= is_long;
    if (turn != Turn::kDone) {
      item.length = turn == Turn::kAgainLong ? Length::kLong : Length::kShort;
      // The place in the deque may want memory: then the task ends as if it had thrown.
      if (!RunGuarded("worker pool", [&] { Push(std::move(item)); })) item = Item();
    }
    // A long turn that ended may let another begin beside the task this thread takes next.
    if (waiting_ > 1) wake_.notify_one();
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
