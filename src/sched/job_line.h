// JobLine: jobs of one priority class that wait in the order of their turns.
//
// Each client has a line of its own: a list through the jobs themselves (progress.next), so that
// nothing is allocated. FairShare says which client's first job is next; jobs of one client take
// turns. A mutex, held for as long as it takes to link a job or to choose a batch's rows
// (microseconds); other threads read `empty` first.
//
// A batch is chosen in two passes, so that a job's rows lie side by side in it: First, then Choose
// or SetAside, until the batch is full; then EndChoice, and the chosen jobs' rows are put there.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "sched/fair_share.h"

namespace penstock::sched {

template <typename Job>
class JobLine {
 public:
  JobLine() : lines_(std::make_unique<Line[]>(share_.clients_max())) {}

  // The job's rows from progress.next_row on wait here.
  void Push(Job* job) {
    const std::lock_guard lock(mutex_);
    const uint32_t line = share_.Join(job->context.client, job->context.client_weight).line;
    lines_used_ = std::max(lines_used_, line + 1);
    job->progress.line = line;
    AddRows(line, job->row_count() - job->progress.next_row);
    Append(&lines_[line], job);
    jobs_.fetch_add(1, std::memory_order_seq_cst);
  }
  // seq_cst: for use between PrepareWait and Wait.
  bool empty() const { return jobs_.load(std::memory_order_seq_cst) == 0; }

  // Whether the client has fewer rows here than others have on average, times its weight. False
  // where no other client's wait.
  bool IsBelowShare(uint64_t client, uint32_t weight) {
    if (empty()) return false;
    const std::lock_guard lock(mutex_);
    const uint32_t line = share_.LineOf(client);
    const int64_t own = line == FairShare::kNone ? 0 : lines_[line].rows;
    const int64_t others = share_.waiting_clients() - (line == FairShare::kNone ? 0 : 1);
    return others > 0 && own * others < (rows_ - own) * weight;
  }

  // Unlinks jobs for which is_dead(job): of each client from the first on, until its part of
  // `live_max` live ones was seen. Returns a list of them through progress.next. The caller answers
  // their rows from next_row on, without this mutex: `done` may submit again.
  template <typename IsDead>
  Job* Sweep(IsDead is_dead, size_t live_max) {
    if (empty()) return nullptr;
    const std::lock_guard lock(mutex_);
    const size_t live_each = std::max<size_t>(live_max / std::max(share_.waiting_clients(), 1u), 1);
    Job* dead = nullptr;
    for (uint32_t line = 0; line < lines_used_; ++line) {
      Job** link = &lines_[line].head;
      Job* before = nullptr;
      for (size_t live = 0; live < live_each && *link != nullptr;) {
        Job* const job = *link;
        if (!is_dead(*job)) {
          before = job;
          link = &job->progress.next;
          ++live;
          continue;
        }
        *link = job->progress.next;
        AddRows(line, int64_t{job->progress.next_row} - job->row_count());
        if (lines_[line].tail == job) lines_[line].tail = before;
        Left(line);
        job->progress.next = dead;
        dead = job;
      }
    }
    return dead;
  }

 protected:
  // All below: under the mutex.
  size_t jobs() const { return jobs_.load(std::memory_order_relaxed); }
  // The job that is next in turn; null: none, or all are set aside.
  Job* First() const {
    const uint32_t line = share_.Next();
    return line == FairShare::kNone ? nullptr : lines_[line].head;
  }
  // The first job gives `rows` more, which cost about `seconds`. If they are its last, it
  // waits no more; else it goes to the end of its client's line.
  void Choose(Job* job, uint32_t rows, double seconds) {
    typename Job::Progress& progress = job->progress;
    if (progress.take_rows == 0) {
      progress.chosen = nullptr;
      (chosen_last_ == nullptr ? chosen_ : chosen_last_->progress.chosen) = job;
      chosen_last_ = job;
    }
    progress.take_rows += rows;
    AddRows(progress.line, -int64_t{rows});
    share_.Serve(progress.line, seconds);
    Line& line = lines_[progress.line];
    CutFirst(&line);
    if (progress.next_row + progress.take_rows < job->row_count()) return Append(&line, job);
    Left(progress.line);
    SkipIfAside(progress.line);
  }
  // The first job waits no more, though it has rows.
  void TakeOut(Job* job) {
    const uint32_t index = job->progress.line;
    AddRows(index, int64_t{job->progress.next_row} - job->row_count());
    CutFirst(&lines_[index]);
    Left(index);
    SkipIfAside(index);
  }
  // The first job cannot give its next row to this batch: others are looked at, and it is first of
  // its client again after EndChoice.
  void SetAside(Job* job) {
    const uint32_t index = job->progress.line;
    Line& line = lines_[index];
    CutFirst(&line);
    job->progress.next = nullptr;
    if (line.aside == nullptr) {
      line.aside = job;
      line.next_with_aside = with_aside_;
      with_aside_ = index;
    } else {
      line.aside_last->progress.next = job;
    }
    line.aside_last = job;
    SkipIfAside(index);
  }
  // Ends the choice; returns the chosen jobs, in the order they were first chosen, as a list
  // through progress.chosen. The caller sets their take_rows to 0.
  Job* EndChoice() {
    while (with_aside_ != FairShare::kNone) {
      Line& line = lines_[with_aside_];
      line.aside_last->progress.next = line.head;
      if (line.head == nullptr) line.tail = line.aside_last;
      line.head = line.aside;
      line.aside = nullptr;
      with_aside_ = line.next_with_aside;
    }
    share_.EndSkips();
    Job* const chosen = chosen_;
    chosen_ = chosen_last_ = nullptr;
    return chosen;
  }

  std::mutex mutex_;

 private:
  // The jobs of one client, or of several if there are very many (fair_share.h).
  struct Line {
    Job* head = nullptr;
    Job* tail = nullptr;
    Job *aside = nullptr, *aside_last = nullptr;  // jobs before `head`
    int64_t rows = 0;
    uint32_t next_with_aside = FairShare::kNone;
  };

  static void Append(Line* line, Job* job) {
    job->progress.next = nullptr;
    (line->head == nullptr ? line->head : line->tail->progress.next) = job;
    line->tail = job;
  }
  static void CutFirst(Line* line) { line->head = line->head->progress.next; }
  void AddRows(uint32_t line, int64_t rows) {
    lines_[line].rows += rows;
    rows_ += rows;
  }
  void Left(uint32_t line) {
    jobs_.fetch_sub(1, std::memory_order_seq_cst);
    share_.Leave(line);
  }
  void SkipIfAside(uint32_t line) {
    if (lines_[line].head == nullptr && lines_[line].aside != nullptr) share_.Skip(line);
  }

  // All guarded by mutex_.
  FairShare share_;
  const std::unique_ptr<Line[]> lines_;
  uint32_t lines_used_ = 0;
  int64_t rows_ = 0;                        // that wait
  uint32_t with_aside_ = FairShare::kNone;  // a line that has jobs set aside
  Job *chosen_ = nullptr, *chosen_last_ = nullptr;
  std::atomic<size_t> jobs_{0};  // written under mutex_
};

}  // namespace penstock::sched
