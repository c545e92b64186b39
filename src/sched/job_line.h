// JobLine: jobs that wait in the order of their turns.
//
// A list through the jobs themselves (progress.next): nothing is allocated. A mutex, held for as
// long as it takes to link a job or to choose a batch's rows (microseconds); other threads read
// `empty` first.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>

namespace penstock {

template <typename Job>
class JobLine {
 public:
  // The job's rows from progress.next_row on wait here.
  void Push(Job* job) {
    const std::lock_guard lock(mutex_);
    Append(job);
    jobs_.fetch_add(1, std::memory_order_seq_cst);
  }
  // seq_cst: for use between PrepareWait and Wait.
  bool empty() const { return jobs_.load(std::memory_order_seq_cst) == 0; }

  // Unlinks jobs for which is_dead(job), from the first on until `live_max` live ones were seen.
  // Returns a list of them through progress.next. The caller answers their rows from next_row on,
  // without this mutex: `done` may submit again.
  template <typename IsDead>
  Job* Sweep(IsDead is_dead, size_t live_max) {
    if (empty()) return nullptr;
    const std::lock_guard lock(mutex_);
    Job* dead = nullptr;
    Job** link = &head_;
    Job* before = nullptr;
    while (Job* const job = *link) {
      if (live_max == 0) break;
      if (is_dead(*job)) {
        Unlink(link, before);
        job->progress.next = dead;
        dead = job;
      } else {
        before = job;
        link = &job->progress.next;
        --live_max;
      }
    }
    return dead;
  }

 protected:
  // All below: under the mutex.
  size_t jobs() const { return jobs_.load(std::memory_order_relaxed); }
  void Append(Job* job) {
    job->progress.next = nullptr;
    (tail_ == nullptr ? head_ : tail_->progress.next) = job;
    tail_ = job;
  }
  // Takes the job that `link` points to, which comes after `before`, out of the line.
  Job* Cut(Job** link, Job* before) {
    Job* const job = *link;
    *link = job->progress.next;
    if (tail_ == job) tail_ = before;
    return job;
  }
  // The same, and the job waits no more.
  Job* Unlink(Job** link, Job* before) {
    jobs_.fetch_sub(1, std::memory_order_seq_cst);
    return Cut(link, before);
  }

  std::mutex mutex_;
  Job* head_ = nullptr;  // next in turn; guarded by mutex_

 private:
  Job* tail_ = nullptr;          // guarded by mutex_
  std::atomic<size_t> jobs_{0};  // written under mutex_
};

}  // namespace penstock
